-- Healthy while it works, Degraded while it can do nothing.
local hs = {status = "Progressing", message = "The operator has not looked at it yet"}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Ready" then
      hs.message = condition.reason .. ": " .. condition.message
      if condition.status == "True" then
        hs.status = "Healthy"
      elseif condition.status == "False" then
        hs.status = "Degraded"
      end
    end
  end
end
if obj.spec.suspend then
  hs.status = "Suspended"
end
return hs

-- Healthy once it has succeeded, Degraded once it has failed for good. An attempt that is tried again is Progressing.
local hs = {status = "Progressing", message = "The operator has not looked at it yet"}
if obj.spec.suspend then
  hs.status = "Suspended"
end
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Succeeded" then
      hs.message = condition.reason .. ": " .. condition.message
      if condition.status == "True" then
        hs.status = "Healthy"
      elseif condition.status == "False" then
        hs.status = "Degraded"
      end
    end
  end
end
return hs

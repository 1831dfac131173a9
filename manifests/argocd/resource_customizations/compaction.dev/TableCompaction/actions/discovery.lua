local ended = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Succeeded" and condition.status ~= "Unknown" then
      ended = true
    end
  end
end
local suspended = obj.spec.suspend == true
local actions = {}
actions["suspend"] = {["disabled"] = ended or suspended}
actions["resume"] = {["disabled"] = ended or not suspended}
return actions

local ended = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Succeeded" and condition.status ~= "Unknown" then
      ended = true
    end
  end
end
local suspended = obj.spec.suspend == true
local approvable = obj.spec.mode == "Plan" and obj.spec.approved ~= true
local actions = {}
actions["approve"] = {["disabled"] = ended or not approvable}
actions["suspend"] = {["disabled"] = ended or suspended}
actions["resume"] = {["disabled"] = ended or not suspended}
return actions

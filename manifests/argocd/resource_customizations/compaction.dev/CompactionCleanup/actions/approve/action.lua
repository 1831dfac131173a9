obj.spec.approved = true
return obj

-- A script for wrk: the requests are for many URLs. A number follows the path; the argument is how many there are.

function init(args)
  urls = tonumber(args[1])
  number = 0
end

function request()
  number = (number + 1) % urls
  return wrk.format(nil, wrk.path .. number)
end

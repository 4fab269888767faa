-- A script for wrk: each request comes from another client, as X-Forwarded-For says. The argument is the first client's number.
-- Addresses are taken from 10.0.0.0/8, which is private (RFC 1918).

local threads = 0

function setup(thread)
  thread:set("thread", threads)
  threads = threads + 1
end

function init(args)
  -- Each thread counts upwards from a range of its own; no thread sends 200,000 requests in one run.
  client = tonumber(args[1]) + thread * 200000
end

function request()
  client = client + 1
  local a, b, c = math.floor(client / 65536) % 256, math.floor(client / 256) % 256, client % 256
  wrk.headers["Host"] = "localhost"
  wrk.headers["X-Forwarded-For"] = string.format("10.%d.%d.%d", a, b, c)
  return wrk.format()
end

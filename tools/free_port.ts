/** Below the ports that systems choose themselves, for port 0 and for connections: from 32,768 on with Linux. */
const [FIRST, LAST] = [11_000, 31_999];
/** How many ports a thread has for itself. */
const BLOCK = 100;

/**
 * The ports of this thread. A listener at the first of them, which stays open as long as the thread runs, keeps all other
 * threads and processes from them: test files run in several at once, and a program that a test starts takes a while
 * until it listens. It is opened on import, because it would count as a leak of the test that opened it.
 */
const block = claimBlock();
let calls = 0;

function claimBlock(): number {
  const blocks = Math.floor((LAST + 1 - FIRST) / BLOCK);
  for (;;) {
    const port = FIRST + BLOCK * Math.floor(blocks * Math.random());
    const listener = tryToListen(port);
    if (listener !== undefined) return port;
  }
}

function tryToListen(port: number): Deno.Listener | undefined {
  try {
    return Deno.listen({ hostname: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
  }
}

/**
 * Returns a port of 127.0.0.1 on which nobody listens, for a program that cannot choose one itself or that is started
 * again on the same port. No other caller gets it in the meantime, and no program to which the system gives a port.
 */
export function findFreePort(): number {
  for (;;) {
    const port = block + 1 + calls++ % (BLOCK - 1);
    const listener = tryToListen(port);
    listener?.close();
    if (listener !== undefined) return port;
  }
}

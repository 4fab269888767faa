import { assertEquals } from "@std/assert";
import { passableCode, WebSocketPeer } from "../../src/proxy/websocket_peer.ts";

/** A WebSocket without a network: it writes down what is done to it. */
class FakeSocket extends EventTarget {
  readyState: number = WebSocket.CONNECTING;
  bufferedAmount = 0;
  binaryType = "blob";
  readonly done: unknown[] = [];

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event("open"));
  }

  hear(data: unknown): void {
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  send(data: unknown): void {
    this.done.push(data);
  }

  close(...end: unknown[]): void {
    this.readyState = WebSocket.CLOSING;
    this.done.push(end);
  }
}

function sides() {
  const [from, to] = [new FakeSocket(), new FakeSocket()];
  const [fromSide, toSide] = [from, to].map((socket) => new WebSocketPeer(socket as unknown as WebSocket));
  return { from, to, fromSide: fromSide!, toSide: toSide! };
}

Deno.test("WebSocketSide keeps what it hears until it has another side", () => {
  const { from, to, fromSide, toSide } = sides();
  to.open();
  from.hear("one");
  from.hear("two");
  assertEquals(to.done, []);
  fromSide.forwardTo(toSide);
  from.hear("three");
  assertEquals(to.done, ["one", "two", "three"]);
});

Deno.test("WebSocketSide keeps what it is told until it is open, its end as well", () => {
  const { to, toSide } = sides();
  toSide.send("one");
  toSide.close(4000, "bye");
  toSide.send("lost");
  assertEquals(to.done, []);
  to.open();
  assertEquals(to.done, ["one", [4000, "bye"]]);
});

Deno.test("WebSocketSide passes a close on as what close() takes", () => {
  for (const [code, end] of [[1005, []], [1000, [1000, "r"]], [1001, [4901, "r"]]] as const) {
    const { from, to, fromSide, toSide } = sides();
    to.open();
    fromSide.forwardTo(toSide);
    from.dispatchEvent(new CloseEvent("close", { code, reason: "r" }));
    assertEquals(to.done, [end]);
  }
});

Deno.test("WebSocketSide ends both sides when it lags more than 16 MiB behind, not when less", () => {
  const lagging = [4913, "The other side does not read"];
  for (const [bufferedAmount, end] of [[16 * 1024 * 1024, []], [16 * 1024 * 1024 + 1, [lagging]]] as const) {
    const { from, to, fromSide, toSide } = sides();
    from.open();
    to.open();
    fromSide.forwardTo(toSide);
    toSide.forwardTo(fromSide);
    to.bufferedAmount = bufferedAmount;
    from.hear("x");
    assertEquals([to.done, from.done], [["x", ...end], end]);
  }
});

Deno.test("WebSocketSide counts what it keeps before it is open", () => {
  const { from, to, fromSide, toSide } = sides();
  from.open();
  fromSide.forwardTo(toSide);
  toSide.forwardTo(fromSide);
  const mebibyte = new ArrayBuffer(1024 * 1024);
  for (let i = 0; i < 16; i++) from.hear(mebibyte);
  assertEquals(from.done, []);
  from.hear("x");
  assertEquals(from.done, [[4913, "The other side does not read"]]);
  to.open();
  assertEquals(to.done.length, 18);
});

Deno.test("passableCode() leaves alone what close() takes, and tells the rest as 49xx", () => {
  for (
    const [code, passable] of [
      [1000, 1000],
      [1001, 4901],
      [1006, 4906],
      [1011, 4911],
      [1015, 4915],
      [0, 4906],
      [999, 4906],
      [2000, 4906],
      [2999, 4906],
      [3000, 3000],
      [4999, 4999],
      [5000, 4906],
    ] as const
  ) {
    assertEquals(passableCode(code), passable);
  }
});

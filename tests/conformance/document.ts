import { rowsAfter } from "../_markdown.ts";

/** What docs/conformance.md says of a clause. */
interface Row {
  readonly id: string;
  readonly clause: string;
  /** `yes`, or `departs: ` and the reason, or `in part: ` and what is missing of something optional. */
  readonly here: string;
}

/** A row about a clause that a check asks for. */
export interface VisibleRow extends Row {
  /** The result of REP's Go gateway: `yes`, or `no: ` and what it does. */
  readonly goGateway: string;
}

/** A row about a clause that only a test of this project shows. */
export interface HiddenRow extends Row {
  readonly test: string;
}

/** What docs/conformance.md says. */
export interface ConformanceDocument {
  readonly text: string;
  readonly visible: readonly VisibleRow[];
  readonly hidden: readonly HiddenRow[];
}

/** Reads docs/conformance.md. */
export async function readDocument(): Promise<ConformanceDocument> {
  const text = await Deno.readTextFile("docs/conformance.md");
  const visible: VisibleRow[] = [];
  for (const row of rowsAfter("Seen from outside", text)) {
    const [id = "", clause = "", here = "", goGateway = ""] = row;
    visible.push({ id, clause, here, goGateway });
  }
  const hidden: HiddenRow[] = [];
  for (const row of rowsAfter("Seen by our tests only", text)) {
    const [id = "", clause = "", here = "", test = ""] = row;
    hidden.push({ id, clause, here, test });
  }
  return { text, visible, hidden };
}

/** Whether a row says that this gateway departs from its clause. */
export function departs({ here }: Row): boolean {
  return here.startsWith("departs: ");
}

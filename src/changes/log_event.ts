/** A change of one PUBLIC variable; without a value, a deletion. */
export interface Change {
  readonly name: string;
  readonly value: string | undefined;
  /** Whether the variable left the PUBLIC tier: its old values must not be sent any more. */
  readonly leavesPublic: boolean;
}

/** A change with its id in the sequence of all changes. */
export interface LogEvent extends Change {
  readonly id: number;
}

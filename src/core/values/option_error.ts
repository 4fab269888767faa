/**
 * An option has an invalid value. The message contains the name of the option in the module. The command, whose users
 * know the option as a flag, creates its own message from the fields.
 */
export class OptionError extends RangeError {
  /** The name of the class. */
  override name = "OptionError";
  /** The name of the option in `GatewayOptions`. */
  readonly option: string;
  /** What would be valid. */
  readonly expected: string;
  /** The invalid value, as text without secrets. */
  readonly got: string;

  /** Creates an error for an option. */
  constructor(option: string, expected: string, got: string) {
    super(`Cannot use ${option}: expected ${expected}, got ${got}`);
    this.option = option;
    this.expected = expected;
    this.got = got;
  }
}

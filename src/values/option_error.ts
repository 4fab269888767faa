/**
 * An option has an invalid value. The message names the option as the module does; the command, whose users know it as
 * a flag, builds its own message from the same parts.
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

/** HTML in which all values are escaped. */
export class Markup extends String {}

/** A value in a template. */
export type Content = Markup | string | number | undefined | readonly Content[];

/** The tag of templates of HTML. */
export function markup(
  parts: TemplateStringsArray,
  ...contents: readonly Content[]
): Markup {
  return new Markup(
    parts.map((part, index) => part + toText(contents[index])).join(""),
  );
}

function toText(content: Content): string {
  if (Array.isArray(content)) return content.map(toText).join("");
  return content instanceof Markup
    ? content.toString()
    : escape(String(content ?? ""));
}

/** Also makes visible what hides or reverses the text around it: control and format characters. */
function escape(text: string): string {
  const toEntity = (character: string) => `&#${character.charCodeAt(0)};`;
  const toEscape = (character: string) =>
    `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text.replace(/[&<>"']/g, toEntity).replace(
    /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu,
    toEscape,
  );
}

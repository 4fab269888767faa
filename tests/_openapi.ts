import { parse } from "@std/yaml/parse";
import addFormats from "ajv-formats";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { type Message, readSse } from "./_sse.ts";

/** A JSON object of the document. */
type Json = Record<string, unknown>;

/** A response of the document; its schemas are read by Ajv. */
interface ResponseObject {
  headers?: Record<
    string,
    { $ref?: string; required?: boolean; schema?: { type?: string } }
  >;
  content?: Record<string, { examples?: Record<string, { value: unknown }> }>;
}

/** Headers that are described by `content`, or that every HTTP server sends. */
const GENERAL_HEADERS = ["content-type", "content-length"];
const METHODS = [
  "get",
  "head",
  "options",
  "post",
  "put",
  "delete",
  "patch",
  "trace",
];
const NAME = "openapi";

/** An OpenAPI document, which checks responses. Members and headers that it does not name count as errors. */
export class OpenApi {
  readonly document: Json;
  readonly #ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    validateFormats: true,
  });

  constructor(yaml: string) {
    this.document = parse(yaml) as Json;
    addFormats.default(this.#ajv);
    const { components, paths } = structuredClone(this.document) as {
      components: { schemas: Json };
      paths: Json;
    };
    for (const schema of Object.values(components.schemas) as Json[]) {
      closeObject(schema);
    }
    this.#ajv.addSchema({ components, paths }, NAME, false, false);
  }

  /** Every response of every operation, such as `GET /rep/health 200`. */
  get responses(): string[] {
    return Object.entries(this.document.paths as Record<string, Json>).flatMap((
      [path, item],
    ) =>
      METHODS.filter((method) => method in item).flatMap((method) =>
        Object.keys((item[method] as { responses: Json }).responses).map((
          status,
        ) => `${method.toUpperCase()} ${path} ${status}`)
      )
    );
  }

  /** Returns how a response differs from the document; an empty list if it does not. The body is read. */
  async differences(
    method: string,
    path: string,
    response: Response,
  ): Promise<string[]> {
    const { status } = response;
    const pointer = status === 405
      ? "/components/responses/MethodNotAllowed"
      : this.#resolve(
        `/paths/${
          escapePointer(path)
        }/${method.toLowerCase()}/responses/${status}`,
      );
    const described = this.#at(pointer) as ResponseObject | undefined;
    if (described === undefined) return [`${pointer} is not documented`];
    return [
      ...this.#headerDifferences(pointer, described, response.headers),
      ...await this.#bodyDifferences(pointer, described, method, response),
    ];
  }

  /** Returns how the examples differ from their schemas. */
  exampleDifferences(): string[] {
    return this.responses.flatMap((name) => {
      const [method = "", path = "", status] = name.split(" ");
      const pointer = this.#resolve(
        `/paths/${
          escapePointer(path)
        }/${method.toLowerCase()}/responses/${status}`,
      );
      return Object.entries((this.#at(pointer) as ResponseObject).content ?? {})
        .flatMap(([type, { examples = {} }]) =>
          Object.values(examples).flatMap(({ value }) =>
            this.#validate(
              `${pointer}/content/${escapePointer(type)}/schema`,
              value,
            )
          )
        );
    });
  }

  #headerDifferences(
    pointer: string,
    { headers = {} }: ResponseObject,
    actual: Headers,
  ): string[] {
    const names = new Set(
      Object.keys(headers).map((name) => name.toLowerCase()),
    );
    const unknown = [...actual.keys()].filter((name) =>
      !names.has(name) && !GENERAL_HEADERS.includes(name)
    );
    const invalid = Object.keys(headers).flatMap((name) => {
      const header = this.#resolve(`${pointer}/headers/${name}`);
      const { required = false, schema } = this.#at(header) as {
        required?: boolean;
        schema?: { type?: string };
      };
      const text = actual.get(name);
      if (text === null) return required ? [`${header} is missing`] : [];
      return this.#validate(
        `${header}/schema`,
        schema?.type === "integer" ? Number(text) : text,
      );
    });
    return [
      ...unknown.map((name) => `${pointer}/headers/${name} is not documented`),
      ...invalid,
    ];
  }

  async #bodyDifferences(
    pointer: string,
    described: ResponseObject,
    method: string,
    response: Response,
  ) {
    const type = response.headers.get("content-type")?.split(";")[0] ?? "";
    if (described.content === undefined) {
      return await response.text() === "" ? [] : [`${pointer} has a body`];
    }
    if (!(type in described.content)) {
      return [`${pointer} does not have the type ${type}`];
    }
    const schema = `${pointer}/content/${escapePointer(type)}/schema`;
    if (method === "HEAD") return []; // `Deno.serve` sends no body
    if (type === "text/event-stream") {
      return this.#eventDifferences(schema, await firstEvent(response));
    }
    const text = await response.text();
    return this.#validate(
      schema,
      type.endsWith("json") ? JSON.parse(text) : text,
    );
  }

  #eventDifferences(pointer: string, { event, data, id }: Message): string[] {
    const contentSchema = `/components/schemas/${CONTENT_SCHEMAS[event]}`;
    const message = { event, data: JSON.stringify(data) };
    const hasId = !Number.isNaN(id);
    return [
      ...this.#validate(pointer, hasId ? { ...message, id: `${id}` } : message),
      ...this.#validate(contentSchema, data), // Ajv does not apply `contentSchema`
    ];
  }

  #validate(pointer: string, value: unknown): string[] {
    const validate: ValidateFunction = this.#ajv.compile({
      $ref: `${NAME}#${encodeURI(pointer)}`,
    });
    if (validate(value)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) =>
      `${pointer}: ${instancePath} ${message}`
    );
  }

  /** Follows a reference to another part of the document. */
  #resolve(pointer: string): string {
    const reference = (this.#at(pointer) as { $ref?: string } | undefined)
      ?.$ref;
    return reference === undefined
      ? pointer
      : this.#resolve(reference.slice(1));
  }

  #at(pointer: string): unknown {
    return pointer.slice(1).split("/").map((part) =>
      part.replaceAll("~1", "/").replaceAll("~0", "~")
    )
      .reduce<unknown>(
        (value, part) => (value as Json | undefined)?.[part],
        this.document,
      );
  }
}

/** What the data of an event is. */
const CONTENT_SCHEMAS: Readonly<Record<string, string>> = {
  "rep:config:update": "ConfigUpdate",
  "rep:config:delete": "ConfigDelete",
  "rep:heartbeat": "Heartbeat",
  "message": "Refetch",
};

/** Forbids members that a schema does not name, which the document permits for later versions. */
function closeObject(schema: Json): void {
  if (schema.type === "object") schema.additionalProperties = false;
}

async function firstEvent(response: Response): Promise<Message> {
  const stream = readSse(response);
  const [message] = await stream.take(1);
  await stream.close();
  return message!;
}

function escapePointer(text: string): string {
  return text.replaceAll("~", "~0").replaceAll("/", "~1");
}

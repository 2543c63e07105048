// `./sluice json`: shows how the platform decodes JSON documents, and how the time-series store flattens them.

import type { Command } from 'commander'
import { openJsonDocuments } from '../transformers/json/documents.ts'
import { type Fields, type FieldValue, flatten } from '../transformers/json/flatten.ts'
import { jsonText } from '../transformers/json/json-text.ts'
import { parsePayload } from '../transformers/json/parse.ts'
import { survey } from '../transformers/json/survey.ts'
import { type TimeField, timeFieldsOf } from '../transformers/json/times/time-fields.ts'
import { unflatten } from '../transformers/json/unflatten.ts'
import type { JsonObject, JsonValue } from '../transformers/record-batch.ts'
import { decodeMessage, explained, now, parseNanoseconds, type Timestamp } from './message.ts'
import { readInput, ToolError, writeOutput } from './streams.ts'

interface TransformFlags {
  readonly subtopic: string
  readonly created?: Timestamp
  readonly timeField?: readonly string[]
}

/** Adds the commands to `./sluice json`. */
export function addCommands(json: Command): void {
  json.description('Shows how the platform decodes JSON documents.')
  const file = ['[file]', 'file with the document; omitted or -: standard input'] as const

  json
    .command('transform')
    .argument(...file)
    .description('Prints the messages decoded from a payload, one per line: {"format", "created" (Unix nanoseconds), "payload"}.')
    .requiredOption('--subtopic <dotted>', 'subtopic that it was published to; its last part is the format')
    .option('--created <ns>', 'time of receipt in Unix nanoseconds (default: now)', parseNanoseconds)
    .option<readonly string[] | undefined>(
      '--time-field <name,format[,location]>',
      'field that holds the time of a document; of several, the first one present is used',
      (text, before = []) => [...before, text],
    )
    .addHelpText(
      'after',
      `
A format is unix, unix_ms, unix_us, unix_ns, a named layout such as rfc3339, or a layout such as "2006-01-02 15:04:05".
A time field with a comma in it is given as in a configuration file, as a JSON object.

Examples:
  echo '{"temperature":21.5}' | ./sluice json transform --subtopic bedroom.climate
  ./sluice json transform --subtopic climate --time-field at,unix_ms --time-field 'time,2006-01-02 15:04,Europe/Berlin' readings.json
  ./sluice json transform --subtopic climate --time-field '{"field_name":"at","field_format":"Jan 2, 2006"}' readings.json
`,
    )
    .action(transform)

  json
    .command('flatten')
    .argument(...file)
    .description('Prints a document as the flat fields of the time-series store: nested keys joined by /.')
    .addHelpText('after', `\nExample:\n  echo '{"d":{"tmp":21.5}}' | ./sluice json flatten\n`)
    .action(async (file: string | undefined) => {
      const document = await readValue(file, 'json flatten')
      const { keys, values } = explained(() => flatten(document))
      await writeOutput(`{${keys.map((key, at) => `${JSON.stringify(key)}:${JSON.stringify(values[at])}`).join(',')}}\n`)
    })

  json
    .command('unflatten')
    .argument(...file)
    .description('Prints flattened fields as a nested document.')
    .addHelpText('after', `\nExample:\n  echo '{"d/tmp":21.5}' | ./sluice json unflatten\n`)
    .action(async (file: string | undefined) => {
      const fields = fieldsOf(await readValue(file, 'json unflatten'))
      await writeOutput(`${jsonText(explained(() => unflatten(fields)))}\n`)
    })
}

async function transform(file: string | undefined, flags: TransformFlags): Promise<void> {
  const { subtopic, created = now(), timeField = [] } = flags
  const transformer = openJsonDocuments({ timeFields: timeFields(timeField) })
  const { documents } = decodeMessage(transformer, await readInput(file, 'json transform'), created, subtopic)
  const lines: string[] = []
  for (let row = 0; row < documents.length; row++) {
    const createdNs = BigInt(documents.createdUs[row]!) * 1000n + BigInt(documents.createdRestNs[row]!)
    lines.push(
      `{"format":${JSON.stringify(documents.format[row])},"created":${createdNs},"payload":${jsonText(documents.payload[row]!)}}\n`,
    )
  }
  await writeOutput(lines.join(''))
}

function timeFields(texts: readonly string[]): TimeField[] {
  const entries = texts.map(timeFieldEntry)
  try {
    return timeFieldsOf(entries)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw new ToolError(cause.message, { cause })
  }
}

/** Parses `name,format[,location]` or a JSON object into an entry as it stands in configuration files. */
function timeFieldEntry(text: string, at: number): unknown {
  if (text.trimStart().startsWith('{')) {
    try {
      return JSON.parse(text)
    } catch (cause) {
      throw new ToolError(`time field ${at}: ${JSON.stringify(text)} is not a JSON object: quote it for the shell with ' '`, { cause })
    }
  }
  const [name, format, location, ...rest] = text.split(',')
  if (format === undefined || rest.length > 0) {
    throw new ToolError(
      `time field ${at}: ${JSON.stringify(text)} is not name,format[,location]: if a part contains commas, give a JSON object with field_name, field_format, location`,
    )
  }
  return { field_name: name, field_format: format, ...(location === undefined ? {} : { location }) }
}

/** Reads any JSON value; integers keep all their digits. */
async function readValue(file: string | undefined, tool: string): Promise<JsonValue> {
  const input = await readInput(file, tool)
  return explained(() => parsePayload(input, survey(input))) as JsonValue
}

/** The fields of a flat object. As in a document, a null is skipped. */
function fieldsOf(flat: JsonValue): Fields {
  if (typeof flat !== 'object' || flat === null || Array.isArray(flat)) {
    throw new ToolError('the input must be an object of fields, such as {"d/tmp":21.5}')
  }
  const fields: Fields = { keys: [], values: [] }
  for (const [key, value] of Object.entries(flat as JsonObject)) {
    if (value === null) continue
    fields.keys.push(key)
    fields.values.push(fieldValue(key, value))
  }
  return fields
}

function fieldValue(key: string, value: Exclude<JsonValue, null>): FieldValue {
  if (typeof value === 'bigint') return Number(value)
  if (typeof value !== 'object') return value
  throw new ToolError(
    `the field ${JSON.stringify(key)} is ${Array.isArray(value) ? 'an array' : 'an object'}: a field must be a number, a string, true or false`,
  )
}

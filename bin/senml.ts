// `sluice senml`: shows what the platform makes of a SenML pack, and converts packs between JSON and CBOR.

import { type Command, Option } from 'commander'
import type { RecordColumns } from '../transformers/record-batch.ts'
import { openSenmlCbor } from '../transformers/senml/cbor.ts'
import { openSenmlJson } from '../transformers/senml/json.ts'
import { resolvedVersionOfCbor, resolvedVersionOfJson } from '../transformers/senml/resolved-version.ts'
import { toCbor } from '../transformers/senml/write-cbor.ts'
import { toJson } from '../transformers/senml/write-json.ts'
import type { TimeBounds } from '../transformers/time-bounds.ts'
import { decodeMessage, explained, type Instant, now, parseSeconds } from './message.ts'
import { resolvedText } from './resolved-text.ts'
import { readInput, refuseTerminal, ToolError, writeOutput } from './streams.ts'

const json = 'application/senml+json'
const cbor = 'application/senml+cbor'

interface PackFlags {
  readonly contentType?: typeof json | typeof cbor
  readonly now?: Instant
  readonly hex?: boolean
}

const packArgument = ['[file]', 'the pack; without it, or with -, from standard input'] as const

/** Adds the commands to `sluice senml`. */
export function addCommands(senml: Command): void {
  senml.description('Shows what the platform makes of a SenML pack (RFC 8428).')

  addPackCommand(senml, 'resolve')
    .description('Prints the records of a pack resolved: full names, absolute times, in the order of time.')
    .addHelpText(
      'after',
      `
Prints a JSON array, a record on each line. A time may lie as far ahead as it wants, but not before 2^28 s (July 1978):
written into a pack again, it would count from now.

Examples:
  sluice senml resolve pack.json
  echo '[{"bn":"room:","n":"temperature","u":"Cel","v":21.5}]' | sluice senml resolve --now 1700000000
  echo 81a2006161020a | sluice senml resolve --hex
`,
    )
    .action(async (file: string | undefined, flags: PackFlags) => {
      const { contentType, payload, records } = await decodePack(file, flags, 'senml resolve', { timeAheadMaxUs: Number.POSITIVE_INFINITY })
      const version = contentType === json ? resolvedVersionOfJson(payload) : resolvedVersionOfCbor(payload)
      await writeOutput(resolvedText(records, version))
    })

  addPackCommand(senml, 'validate')
    .description('Says how many resolved records a pack has, or why a writer with its default options would refuse it.')
    .addHelpText(
      'after',
      `
Only its size is not looked at: a writer takes 256 KiB by default.

Examples:
  sluice senml validate pack.json
  sluice senml validate --content-type ${cbor} < pack.cbor
`,
    )
    .action(async (file: string | undefined, flags: PackFlags) => {
      const { records } = await decodePack(file, flags, 'senml validate', {})
      await writeOutput(`ok, ${records.length} records\n`)
    })

  senml
    .command('to-cbor')
    .argument(...packArgument)
    .option('--hex', 'write hexadecimal text')
    .description('Writes a pack of SenML JSON as SenML CBOR, as it is: nothing is resolved, and unknown labels are kept.')
    .addHelpText('after', '\nExamples:\n  sluice senml to-cbor pack.json > pack.cbor\n  sluice senml to-cbor --hex pack.json\n')
    .action(async (file: string | undefined, { hex = false }: { hex?: boolean }) => {
      if (!hex) refuseTerminal('CBOR', 'see it with --hex')
      const input = await readInput(file, 'senml to-cbor')
      const bytes = explained(() => toCbor(input))
      await writeOutput(hex ? `${Buffer.from(bytes).toString('hex')}\n` : bytes)
    })

  senml
    .command('to-json')
    .argument(...packArgument)
    .option('--hex', 'the pack is hexadecimal text')
    .description('Writes a pack of SenML CBOR as SenML JSON, as it is: nothing is resolved, and unknown labels are kept.')
    .addHelpText('after', '\nExamples:\n  sluice senml to-json pack.cbor\n  echo 81a2006161020a | sluice senml to-json --hex\n')
    .action(async (file: string | undefined, { hex = false }: { hex?: boolean }) => {
      const input = await readInput(file, 'senml to-json')
      const payload = hex ? bytesOfHex(input) : input
      await writeOutput(`${explained(() => toJson(payload))}\n`)
    })
}

interface DecodedPack {
  readonly contentType: typeof json | typeof cbor
  readonly payload: Uint8Array
  readonly records: RecordColumns
}

/** A command that decodes one pack, with the options that say how. */
function addPackCommand(senml: Command, name: string): Command {
  return senml
    .command(name)
    .argument(...packArgument)
    .addOption(new Option('--content-type <type>', `what the pack is (default: ${json}, with --hex ${cbor})`).choices([json, cbor]))
    .addOption(
      new Option('--now <unix seconds>', 'when the pack was received: what relative times count from (default: now)').argParser(
        parseSeconds,
      ),
    )
    .option('--hex', 'the pack is CBOR as hexadecimal text')
}

async function decodePack(file: string | undefined, flags: PackFlags, tool: string, bounds: Partial<TimeBounds>): Promise<DecodedPack> {
  const contentType = flags.contentType ?? (flags.hex ? cbor : json)
  if (flags.hex && contentType === json) throw new ToolError('--hex is for CBOR: leave it out, or the content type')
  const input = await readInput(file, tool)
  const payload = flags.hex ? bytesOfHex(input) : input
  if (flags.contentType === undefined && contentType === json && startsAsCbor(payload)) {
    throw new ToolError(`the pack looks like CBOR: add --content-type ${cbor}`)
  }
  if (flags.hex !== true && /^\s*8[0-9a-f][0-9a-f\s]*$/i.test(Buffer.from(payload).toString('latin1'))) {
    throw new ToolError(`the pack looks like CBOR in hexadecimal: add --content-type ${cbor} --hex`)
  }
  const transformer = contentType === json ? openSenmlJson(bounds) : openSenmlCbor(bounds)
  const { records } = decodeMessage(transformer, payload, flags.now ?? now(), { contentType })
  return { contentType, payload, records }
}

/** Whether the first byte begins an array in CBOR; no text in UTF-8 begins with it. */
function startsAsCbor(payload: Uint8Array): boolean {
  return payload[0]! >> 5 === 4
}

/** Hexadecimal text with blanks and ends of lines wherever, and a byte-order mark at its beginning or none. */
function bytesOfHex(input: Uint8Array): Uint8Array {
  const digits = Buffer.from(input)
    .toString('latin1')
    .replace(/^\xef\xbb\xbf/, '')
    .replace(/\s+/g, '')
  const fault = digits.search(/[^0-9a-fA-F]/)
  if (fault !== -1) throw new ToolError(`${JSON.stringify(digits[fault])} is no hexadecimal digit: give 0-9 and a-f, two for each byte`)
  if (digits.length % 2 !== 0) throw new ToolError(`the input has ${digits.length} hexadecimal digits: give two for each byte`)
  return Buffer.from(digits, 'hex')
}

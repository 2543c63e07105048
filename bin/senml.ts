// `./sluice senml`: shows how the platform resolves a SenML pack, and converts packs between JSON and CBOR.

import type { Command } from 'commander'
import type { RecordColumns } from '../transformers/record-batch.ts'
import { openSenmlCbor } from '../transformers/senml/cbor/cbor.ts'
import { openSenmlJson } from '../transformers/senml/json.ts'
import { resolvedVersionOfCbor, resolvedVersionOfJson } from '../transformers/senml/resolved-version.ts'
import type { TimeBounds } from '../transformers/transformer.ts'
import { decodeMessage, explained, now, parseSeconds, type Timestamp } from './message.ts'
import { resolvedText } from './resolved-text.ts'
import { readInput, refuseTerminal, ToolError, writeOutput } from './streams.ts'

interface PackFlags {
  readonly now?: Timestamp
  readonly hex?: boolean
}

const packArgument = ['[file]', 'file with the pack; omitted or -: standard input'] as const

/** Adds the commands to `./sluice senml`. */
export function addCommands(senml: Command): void {
  senml.description('Shows how the platform resolves a SenML pack (RFC 8428).')

  addPackCommand(senml, 'resolve')
    .description('Prints the resolved records of a pack: full names, absolute times, in chronological order.')
    .addHelpText(
      'after',
      `
Prints a JSON array with one record per line. Times before 2^28 s (July 1978) are rejected, because SenML reads them as relative to now.
Unlike a writer, it accepts times in the future. A pack that begins as an array in CBOR is read as CBOR.

Examples:
  ./sluice senml resolve pack.json
  echo '[{"bn":"room:","n":"temperature","u":"Cel","v":21.5}]' | ./sluice senml resolve --now 1700000000
  echo 81a2006161020a | ./sluice senml resolve --hex
`,
    )
    .action(async (file: string | undefined, flags: PackFlags) => {
      const { isCbor, payload, records } = await decodePack(file, flags, 'senml resolve', { timeAheadMaxUs: Number.POSITIVE_INFINITY })
      await writeOutput(resolvedText(records, isCbor ? resolvedVersionOfCbor(payload) : resolvedVersionOfJson(payload)))
    })

  addPackCommand(senml, 'validate')
    .description('Prints how many resolved records a pack has, or why a writer with default options would reject it.')
    .addHelpText(
      'after',
      `
The size of the payload is not checked: a writer accepts 256 KiB by default.

Examples:
  ./sluice senml validate pack.json
  ./sluice senml validate < pack.cbor
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
    .description('Converts a SenML JSON pack to SenML CBOR without resolving it; unknown labels are kept.')
    .addHelpText('after', '\nExamples:\n  ./sluice senml to-cbor pack.json > pack.cbor\n  ./sluice senml to-cbor --hex pack.json\n')
    .action(async (file: string | undefined, { hex = false }: { hex?: boolean }) => {
      if (!hex) refuseTerminal('CBOR', 'see it with --hex')
      const input = await readInput(file, 'senml to-cbor')
      const { toCbor } = await import('./senml-conversion.ts')
      const bytes = explained(() => toCbor(input))
      await writeOutput(hex ? `${Buffer.from(bytes).toString('hex')}\n` : bytes)
    })

  senml
    .command('to-json')
    .argument(...packArgument)
    .option('--hex', 'the pack is hexadecimal text')
    .description('Converts a SenML CBOR pack to SenML JSON without resolving it; unknown labels are kept.')
    .addHelpText('after', '\nExamples:\n  ./sluice senml to-json pack.cbor\n  echo 81a2006161020a | ./sluice senml to-json --hex\n')
    .action(async (file: string | undefined, { hex = false }: { hex?: boolean }) => {
      const input = await readInput(file, 'senml to-json')
      const { toJson } = await import('./senml-conversion.ts')
      const payload = hex ? bytesOfHex(input) : input
      await writeOutput(`${explained(() => toJson(payload))}\n`)
    })
}

interface DecodedPack {
  readonly isCbor: boolean
  readonly payload: Uint8Array
  readonly records: RecordColumns
}

/** A command that decodes one pack, with the options for it. */
function addPackCommand(senml: Command, name: string): Command {
  return senml
    .command(name)
    .argument(...packArgument)
    .option('--now <unix seconds>', 'time of receipt, which relative times are added to (default: now)', parseSeconds)
    .option('--hex', 'the pack is CBOR as hexadecimal text')
}

async function decodePack(file: string | undefined, flags: PackFlags, tool: string, bounds: Partial<TimeBounds>): Promise<DecodedPack> {
  const input = await readInput(file, tool)
  const payload = flags.hex ? bytesOfHex(input) : input
  if (flags.hex !== true && /^\s*8[0-9a-f][0-9a-f\s]*$/i.test(Buffer.from(payload).toString('latin1'))) {
    throw new ToolError('the pack looks like CBOR in hexadecimal: add --hex')
  }
  // No UTF-8 text starts with the first byte of an array in CBOR.
  const isCbor = flags.hex === true || payload[0]! >> 5 === 4
  const { records } = decodeMessage(isCbor ? openSenmlCbor(bounds) : openSenmlJson(bounds), payload, flags.now ?? now())
  return { isCbor, payload, records }
}

/** Parses hexadecimal text; white space anywhere and a leading byte-order mark are skipped. */
function bytesOfHex(input: Uint8Array): Uint8Array {
  const digits = Buffer.from(input)
    .toString('latin1')
    .replace(/^\xef\xbb\xbf/, '')
    .replace(/\s+/g, '')
  const fault = digits.search(/[^0-9a-fA-F]/)
  if (fault !== -1) throw new ToolError(`${JSON.stringify(digits[fault])} is not a hexadecimal digit: use 0-9 and a-f, two for each byte`)
  if (digits.length % 2 !== 0) throw new ToolError(`the input has ${digits.length} hexadecimal digits: give two for each byte`)
  return Buffer.from(digits, 'hex')
}

// `./sluice erase`: counts the messages of a channel, a publisher or before a time in a store, and with --yes deletes them for good.

import type { Command } from 'commander'
import { ToolError, writeOutput } from '../../bin/streams.ts'
import { type Conditions, erasureFilter } from '../../pipeline/erase/conditions.ts'
import { type Erase, type EraseReport, erase, type HeldTopic } from '../../pipeline/erase/erase.ts'
import type { AuditedLog } from '../../sinks/audit.ts'
import type { Erasure, ErasureFilter } from '../../sinks/erasure.ts'
import { storeNamesText } from '../stores/store.ts'
import { explained } from './failure.ts'
import { openProgress } from './progress.ts'
import { addAddressOptions, type Sources, storeNamed, type TargetFlags } from './target/flags.ts'
import { checkRemoteStore, openRemote } from './target/remote.ts'
import { jsonLine, plain, table } from './text.ts'

interface EraseFlags extends Omit<TargetFlags, 'writer'>, Conditions {
  readonly yes?: boolean
  readonly list?: boolean
  readonly json?: boolean
}

/** Adds `./sluice erase`. */
export function addCommands(command: Command, sources: Sources): void {
  addAddressOptions(command)
    .argument('<store>', storeNamesText)
    .option('--channel <id>', 'messages of this channel')
    .option('--publisher <id>', 'messages that this thing published')
    .option('--before <time>', 'rows with an earlier time: 2026-01-01, or 2026-01-01T12:00:00Z')
    .option('--yes', 'erase them; without it they are only counted')
    .option('--list', 'list what was erased')
    .option('--json', 'print a JSON object; with --list one per line')
    .description(
      'Erases messages of a channel, a publisher or before a time: their rows, and their dead letters. First it only counts them.',
    )
    .addHelpText(
      'after',
      `
Several conditions must all hold. --before goes by the time of a record, the time of receipt of a document, and that of a dead letter.

Without --yes it counts rows and dead letters, says what the logs still have of them and until when, and changes nothing. With --yes it
deletes the rows, in steps beside a running writer, and marks the dead letters as erased: no replay stores them. It notes in the store what
was erased, when, by which conditions and how many rows, so that ./sluice verify and ./sluice trace say "erased", and not "missing".

Rows that are stored while it runs may be deleted or stay, and so do messages that the writer has not stored yet. Ctrl-C ends it after a
step; what is deleted stays deleted.

It cannot delete messages from a log, which keeps them for its retention, nor from backups. If the log is read again from its start, erase
again: ./sluice verify finds rows that are back. A restored backup has only the notes of its time: keep what --list prints elsewhere too.

Run it with the options of the writer. It needs the permission to delete rows.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… ./sluice erase relational --publisher "$THING"
  ./sluice erase relational --publisher "$THING" --yes
  ./sluice erase document --channel "$CHANNEL" --before 2026-01-01 --yes --config writer.toml
  ./sluice erase timeseries --list
  ./sluice erase relational --publisher "$THING" --url http://127.0.0.1:8080 --token "$TOKEN"
`,
    )
    .action((storeName: string, { yes = false, list = false, json = false, ...flags }: EraseFlags) =>
      explained(() => {
        const filter = list ? undefined : filterOf(flags)
        return withErasures(storeName, flags, sources, async ({ erase, erasures }) => {
          if (filter === undefined) {
            const found = await erasures()
            return writeOutput(json ? found.map(jsonLine).join('') : listing(found))
          }
          const progress = openProgress('rows erased')
          const report = await erase(filter, { dryRun: !yes, onProgress: progress.show }).finally(progress.end)
          return writeOutput(json ? jsonLine(report) : reportWords(report, filter))
        })
      }),
    )
}

interface Erasures {
  readonly erase: Erase
  readonly erasures: () => Promise<readonly Erasure[]>
}

async function withErasures(
  storeName: string,
  flags: EraseFlags,
  sources: Sources,
  work: (erasures: Erasures) => Promise<void>,
): Promise<void> {
  const store = storeNamed(storeName)
  if (flags.url !== undefined) {
    checkRemoteStore(store)
    return work(openRemote(flags.url, flags.token))
  }
  const { openTarget } = await import('./target/target.ts')
  const target = await openTarget(store, flags.config === undefined ? {} : { config: flags.config }, sources)
  try {
    const audit = await target.openAudit()
    const { committed } = target
    await work({
      erasures: () => audit.erasures(),
      async erase(filter, options) {
        const parts = {
          store: await target.openErasure(),
          audit,
          topicOf: (log: AuditedLog) => target.openErasedTopic(log),
          ...(committed === undefined ? {} : { committed }),
        }
        const stop = new AbortController()
        process.once('SIGINT', () => stop.abort(new ToolError('stopped: run it again to erase the rest')))
        return erase(parts, filter, { ...options, signal: stop.signal })
      },
    })
  } finally {
    await target.close()
  }
}

/** @throws ToolError */
function filterOf(conditions: Conditions): ErasureFilter {
  try {
    return erasureFilter(conditions)
  } catch (error) {
    throw error instanceof RangeError ? new ToolError(error.message, { cause: error }) : error
  }
}

function conditionWords({ channel, publisher, format, beforeMs }: ErasureFilter): string {
  const words = [
    ...(channel === undefined ? [] : [`channel ${plain(channel)}`]),
    ...(publisher === undefined ? [] : [`publisher ${plain(publisher)}`]),
    ...(format === undefined ? [] : [`format ${plain(format)}`]),
    ...(beforeMs === undefined ? [] : [`before ${new Date(beforeMs).toISOString()}`]),
  ]
  return words.join(', ')
}

/** The report as text. */
function reportWords({ erased, id, found, rows, dead_letters: deadLetters, held, absent }: EraseReport, filter: ErasureFilter): string {
  const formats = Object.entries(found).map(([format, count]) => `  ${plain(format).padEnd(20)}  ${countOf(count, 'row')}\n`)
  const counted = `${countOf(rows, 'row')} and ${countOf(deadLetters, 'dead letter')}`
  return [
    `${erased ? 'erased' : 'found'}: ${counted} of ${conditionWords(filter)}${id === undefined ? '' : ` (${id})`}\n`,
    ...formats,
    ...(held.length === 0 ? [] : ['still there, since single messages cannot be deleted from a log:\n']),
    ...held.map(topic => `  ${heldWords(topic)}\n`),
    ...absent.map(
      log => `the log ${plain(log)} is not on these brokers: its dead letters stay, and verify cannot know that its rows were erased\n`,
    ),
    ...(erased ? [] : ['nothing was erased: add --yes to erase them\n']),
  ].join('')
}

function countOf(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? '' : 's'}`
}

function heldWords({ topic, messages, ...retention }: HeldTopic): string {
  const { kept_ms: keptMs, kept_bytes: keptBytes, compacted = false, unknown = false, not_stored: notStored = 0 } = retention
  const until =
    keptMs === undefined
      ? 'it keeps them without a limit of time'
      : `it keeps those of today until about ${new Date(Date.now() + keptMs).toISOString().slice(0, 10)} (retention.ms = ${keptMs}), and then until all of their segment are as old`
  const words = [
    until,
    ...(keptBytes === undefined ? [] : [`earlier beyond ${keptBytes} bytes in a partition (retention.bytes)`]),
    ...(compacted ? ['it is compacted: the last message of a channel stays until the next one'] : []),
  ]
  const kept = unknown ? 'its retention cannot be read' : words.join('; ')
  const coming = notStored > 0 ? `; ${notStored} of them are not stored yet, and so are not erased` : ''
  return `the log ${plain(topic)} has ${countOf(messages, 'message')} of all channels: ${kept}${coming}`
}

/** The table for people. */
function listing(erasures: readonly Erasure[]): string {
  if (erasures.length === 0) return 'nothing was erased\n'
  const rows = erasures.map(({ id, startedMs, endedMs, rows, deadLetters, retention = false, ...filter }) => [
    new Date(startedMs).toISOString(),
    endedMs === undefined ? 'not ended' : new Date(endedMs).toISOString(),
    ...(retention ? ['retention', ''] : [String(rows), String(deadLetters)]),
    conditionWords(filter),
    id,
  ])
  return table([['BEGAN', 'ENDED', 'ROWS', 'DEAD LETTERS', 'CONDITIONS', 'ID'], ...rows])
}

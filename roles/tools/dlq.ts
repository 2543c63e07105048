// `./sluice dlq`: lists, shows, replays and drops the messages that a writer could not decode or store.

import { createInterface } from 'node:readline/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { ToolError, writeLines, writeOutput } from '../../bin/streams.ts'
import type { DeadLetterFilter } from '../../pipeline/dead-letters/filter.ts'
import type { DeadLetterQueue } from '../../pipeline/dead-letters/queue.ts'
import type { Replay, ReplayReport } from '../../pipeline/dead-letters/replay.ts'
import type { DeadLetterSummary, FullDeadLetter } from '../../pipeline/dead-letters/summary.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import { parseMessageId } from '../../pipeline/message-id.ts'
import { storeNamesText } from '../stores/store.ts'
import { explained } from './failure.ts'
import { openProgress } from './progress.ts'
import { addTargetOptions, orUp, type Sources, storeNamed, type TargetFlags } from './target/flags.ts'
import { openRemote } from './target/remote.ts'
import { jsonLine, payloadLines, plain, short, table } from './text.ts'

interface DlqFlags extends TargetFlags {
  readonly store: string
}

interface FilterFlags extends DlqFlags {
  readonly rule?: string
  readonly channel?: string
  readonly all?: boolean
  readonly yes?: boolean
}

interface ReplayFlags extends FilterFlags {
  readonly dryRun?: boolean
}

/** As many as a person would look through. */
const listedMax = 50
const reasonCharactersMax = 60
const nameCharactersMax = 40
const namedMax = 20

/** Adds the commands to `./sluice dlq`. */
export function addCommands(dlq: Command, sources: Sources): void {
  dlq.description('Lists, shows, replays or drops the dead letters of a writer: messages that could not be decoded or stored.')

  addDlqCommand(dlq, 'ls')
    .description('Lists the open dead letters (neither replayed nor dropped), newest last.')
    .option('--rule <rule>', 'only dead letters that violate this rule')
    .option('--channel <id>', 'only dead letters of this channel')
    .option('--limit <n>', `only the newest n dead letters (default: ${listedMax}; all with --json)`, parseLimit)
    .option('--all', 'include replayed and dropped dead letters')
    .option('--json', 'print one JSON object per line')
    .addHelpText(
      'after',
      `
Examples:
  SVC_LOG_BROKERS=kafka:9092 ./sluice dlq ls
  ./sluice dlq ls --rule one-value --limit 10
  ./sluice dlq ls --all --json | jq -r .id
  ./sluice dlq ls --url http://127.0.0.1:8080 --token "$TOKEN"
`,
    )
    .action(async ({ limit, json = false, ...flags }: FilterFlags & { limit?: number; json?: boolean }) => {
      const { rule, channel, all } = flags
      const filter = filterOf({ rule, channel, all })
      await withDeadLetters(flags, sources, async deadLetters => {
        if (json && limit === undefined) return writeLines(linesOf(deadLetters.each(filter)))
        const page = await deadLetters.list(filter, limit ?? listedMax)
        return writeOutput(json ? page.letters.map(jsonLine).join('') : listing(page.letters, page.total))
      })
    })

  addDlqCommand(dlq, 'show')
    .argument('<id>', 'id of the message: <log>-<partition>-<offset>, or <partition>-<offset>', parseId)
    .description('Prints a dead letter in full: reason, headers and payload.')
    .option('--json', 'print one JSON object per line, with bytes as base64')
    .addHelpText(
      'after',
      '\nControl characters are escaped, so that the terminal does not interpret them.\n\nExamples:\n  ./sluice dlq show 1-3-1234\n  ./sluice dlq show 3-1234 --json | jq -r .payload | base64 -d\n',
    )
    .action(async (id: string, { json = false, ...flags }: DlqFlags & { json?: boolean }) => {
      const deadLetters = await withDeadLetters(flags, sources, deadLetters => deadLetters.show(id))
      if (deadLetters.length === 0) throw new ToolError(`no dead letter has the id ${id}: list them with ./sluice dlq ls --all`)
      await writeOutput(deadLetters.map(json ? jsonLine : portrait).join(json ? '' : '\n'))
    })

  addResolvingCommand(dlq, 'replay', 'replayed')
    .description("Decodes and stores the messages of dead letters again, with the writer's current options.")
    .option('--dry-run', 'decode the messages and print which dead letters would stay open; change nothing')
    .addHelpText(
      'after',
      `
First remove the cause: correct an option of the writer, raise a limit, grant a permission. A message is stored at its original position,
with its original time, and only once, however often it is replayed. If it still cannot be decoded or stored, its dead letter stays open
and the reason is printed.

The writer can keep running. The replay writes to the store, so it needs the permissions of the writer. If it is interrupted, start it
again: it resumes.

Exit code 0: all messages are stored. 1: some dead letters stay open.

Examples:
  ./sluice dlq replay 1-3-1234 1-3-1240
  ./sluice dlq replay --rule format-limit --dry-run
  ./sluice dlq replay --all
`,
    )
    .action(async (ids: string[], flags: ReplayFlags) => replay(ids, flags, sources))

  addResolvingCommand(dlq, 'drop', 'dropped')
    .description('Drops dead letters: they stay in the dead-letter topic, but are no longer open.')
    .addHelpText('after', '\nExamples:\n  ./sluice dlq drop 1-3-1234\n  ./sluice dlq drop --rule one-value --channel "$CHANNEL"\n')
    .action(async (ids: string[], flags: FilterFlags) => drop(ids, flags, sources))
}

function addDlqCommand(dlq: Command, name: string): Command {
  return addTargetOptions(dlq.command(name)).option('--store <name>', `the store of the writer: ${storeNamesText}`, 'relational')
}

function addResolvingCommand(dlq: Command, name: string, participle: string): Command {
  return addDlqCommand(dlq, name)
    .argument('[id...]', `ids of the messages to be ${participle}`, (text: string, before: readonly string[] | undefined) => [
      ...(before ?? []),
      parseId(text),
    ])
    .option('--rule <rule>', 'all open dead letters that violate this rule')
    .option('--channel <id>', 'all open dead letters of this channel')
    .option('--all', 'all open dead letters')
    .option('--yes', 'do not ask for confirmation')
}

async function drop(ids: readonly string[], flags: FilterFlags, sources: Sources): Promise<void> {
  const filter = resolvedFilter('drop', ids, flags)
  const report = await withDeadLetters(flags, sources, async deadLetters => {
    if (mustConfirm(flags) && !(await confirmed(deadLetters, 'drop', filter))) throw new ToolError('nothing was done')
    return deadLetters.drop(filter)
  })
  await writeOutput(report.dropped === 0 ? nothingMeant : `${countOf(report.dropped)} dropped\n`)
  if (report.partial.length > 0) await writeOutput(partialWords(report.partial))
  if (report.missing.length > 0) throw new ToolError(missingWords(report.missing))
}

async function replay(ids: readonly string[], flags: ReplayFlags, sources: Sources): Promise<void> {
  const { dryRun = false } = flags
  const filter = resolvedFilter('replay', ids, flags)
  const progress = openProgress('dead letters read')
  const report = await withTarget(flags, sources, async ({ deadLetters, replay }) => {
    if (!dryRun && mustConfirm(flags) && !(await confirmed(await deadLetters(), 'replay', filter))) throw new ToolError('nothing was done')
    try {
      return await (await replay())(filter, { dryRun, onProgress: progress.show })
    } finally {
      progress.end()
    }
  })
  const { replayed, left, missing } = report
  const done = dryRun ? 'would be replayed' : 'replayed: stored and no longer open'
  await writeOutput(replayed + left === 0 ? nothingMeant : `${countOf(replayed)} ${done}\n`)
  const words = [...(left > 0 ? leftWords(report) : []), ...(missing.length > 0 ? [missingWords(missing)] : [])]
  if (words.length > 0) throw new ToolError(words.join('\n'))
}

const nothingMeant = 'nothing was done: no open dead letter matches (list them with ./sluice dlq ls)\n'

function countOf(deadLetters: number): string {
  return `${deadLetters} dead ${deadLetters === 1 ? 'letter' : 'letters'}`
}

/** --all selects every open dead letter; together with a rule or a channel it does not widen the selection. */
function resolvedFilter(action: string, ids: readonly string[], { rule, channel, all }: FilterFlags): DeadLetterFilter {
  if (ids.length === 0 && rule === undefined && channel === undefined && all !== true) {
    throw new ToolError(`no dead letters selected to ${action}: give ids, --rule, --channel, or --all`)
  }
  if (ids.length > 0 && all === true) throw new ToolError(`give either ids of dead letters to ${action}, or --all`)
  return filterOf({ rule, channel, ...(ids.length > 0 ? { ids } : {}) })
}

function mustConfirm({ all, yes = false }: FilterFlags): boolean {
  return all === true && !yes && process.stdin.isTTY
}

/** Warns of rows that a drop leaves behind in a store without transactions. */
function partialWords(ids: readonly string[]): string {
  const named = ids.length > namedMax ? `${ids.slice(0, namedMax).join(', ')} and ${ids.length - namedMax} more` : ids.join(', ')
  return `the store may keep some rows of ${named}: delete the rows of these positions as described on the store's page ("Rows of refused messages")\n`
}

/** Says which letters stay open, and why. */
function leftWords({ left, reasons }: ReplayReport): string[] {
  const named = reasons.slice(0, namedMax).map(({ id, reason }) => `${id} stays open: ${plain(reason)}`)
  const more = left - named.length
  return more > 0 ? [...named, `and ${countOf(more)} more`] : named
}

function missingWords(ids: readonly string[]): string {
  return `no dead letter has the id ${ids.join(', ')}`
}

async function confirmed(deadLetters: DeadLetterQueue, action: string, filter: DeadLetterFilter): Promise<boolean> {
  const { total } = await deadLetters.list(filter, 0)
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await terminal.question(`${action} all ${total} open dead letters? [y/N] `)).trim())
  } finally {
    terminal.close()
  }
}

/** The letters and the replay, opened when needed. */
interface Target {
  readonly deadLetters: () => Promise<DeadLetterQueue>
  readonly replay: () => Promise<Replay>
}

async function withTarget<Result>(flags: DlqFlags, sources: Sources, work: (target: Target) => Promise<Result>): Promise<Result> {
  return explained(async () => {
    if (flags.url !== undefined) {
      const { deadLetters, replay } = openRemote(flags.url, flags.token)
      return work({ deadLetters: async () => deadLetters, replay: async () => replay })
    }
    const { openTarget } = await import('./target/target.ts')
    const target = await openTarget(storeNamed(flags.store), flags, sources)
    try {
      return await work({ deadLetters: () => target.openDeadLetters(), replay: () => target.openReplay() })
    } catch (error) {
      if (error instanceof LogUnavailableError) throw new ToolError(`${error.message}, ${orUp}`, { cause: error })
      throw error
    } finally {
      await target.close()
    }
  })
}

function withDeadLetters<Result>(
  flags: DlqFlags,
  sources: Sources,
  work: (deadLetters: DeadLetterQueue) => Promise<Result>,
): Promise<Result> {
  return withTarget(flags, sources, async ({ deadLetters }) => work(await deadLetters()))
}

function filterOf(filter: { [Key in keyof DeadLetterFilter]: DeadLetterFilter[Key] | undefined }): DeadLetterFilter {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
}

function parseId(text: string): string {
  if (parseMessageId(text) === undefined) throw new InvalidArgumentError('Give <log>-<partition>-<offset>, as returned by ingest.')
  return text
}

function parseLimit(text: string): number {
  const limit = Number(text)
  if (!/^\d{1,4}$/.test(text) || limit < 1 || limit > 1000) throw new InvalidArgumentError('Give a whole number from 1 to 1000.')
  return limit
}

function listing(deadLetters: readonly DeadLetterSummary[], total: number): string {
  if (total === 0) return 'no matching dead letters\n'
  const rows = deadLetters.map(({ id, state, rule, channel, subtopic, record, reason }) => [
    id,
    state,
    short(rule, nameCharactersMax),
    short(channel, nameCharactersMax),
    short(subtopic === '' ? '-' : subtopic, nameCharactersMax),
    record === undefined ? '-' : String(record),
    short(reason, reasonCharactersMax),
  ])
  const older = total - deadLetters.length
  const more = older > 0 ? `and ${older} older ones: list more with --limit, or all with --json\n` : ''
  return table([['ID', 'STATE', 'RULE', 'CHANNEL', 'SUBTOPIC', 'RECORD', 'REASON'], ...rows]) + more
}

async function* linesOf(deadLetters: AsyncIterable<DeadLetterSummary>): AsyncGenerator<string> {
  for await (const deadLetter of deadLetters) yield jsonLine(deadLetter)
}

function portrait(deadLetter: FullDeadLetter): string {
  const lines: [string, string][] = [
    ['message', `${deadLetter.id}, of the topic ${plain(deadLetter.topic)}`],
    ['state', deadLetter.state],
    ['rule', plain(deadLetter.rule)],
    ['reason', plain(deadLetter.reason)],
  ]
  if (deadLetter.hint !== undefined) lines.push(['hint', plain(deadLetter.hint)])
  if (deadLetter.partial === true)
    lines.push(['partial', 'the store may contain some rows of the message, which it accepted before it rejected this one'])
  if (deadLetter.record !== undefined) lines.push(['record', `${deadLetter.record}, counted from 0`])
  lines.push(
    [
      'channel',
      deadLetter.channel === '' && deadLetter.key !== null ? `none; the key is ${deadLetter.key} in base64` : plain(deadLetter.channel),
    ],
    ['subtopic', plain(deadLetter.subtopic)],
    ['publisher', plain(deadLetter.publisher)],
    ['protocol', plain(deadLetter.protocol)],
    ['created', `${deadLetter.created} ns since 1970`],
    ['type', plain(deadLetter.content_type)],
  )
  for (const { name, value, base64 = false } of deadLetter.headers) {
    lines.push(['header', `${plain(name)}: ${value === null ? 'null' : plain(value)}${base64 ? ' (base64)' : ''}`])
  }
  const where =
    deadLetter.shortened_bytes === undefined
      ? ''
      : `; shortened, because the message of ${deadLetter.shortened_bytes} bytes was too large for its letter`
  lines.push(['payload', `${deadLetter.payload_bytes} bytes${where}`])
  const head = lines.map(([name, value]) => `${name.padEnd(9)}  ${value}`.trimEnd())
  return `${[...head, ...payloadLines(Buffer.from(deadLetter.payload, 'base64'))].join('\n')}\n`
}

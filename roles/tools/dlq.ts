// `sluice dlq`: the messages that a writer could not decode or store, to be looked at, tried again, or put aside for good.

import { createInterface } from 'node:readline/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { ToolError, writeOutput } from '../../bin/streams.ts'
import type { FullLetter, Letter } from '../../pipeline/letters/letter.ts'
import type { Letters, Selection, Settlement } from '../../pipeline/letters/letters.ts'
import { parseMessageId } from '../../pipeline/message-id.ts'
import { storeNamesText } from '../stores/store.ts'
import { explained } from './failure.ts'
import { writeLines } from './output.ts'
import { openRemote } from './remote.ts'
import { addSiteOptions, openSite, type SiteFlags, type Sources, storeNamed } from './site.ts'
import { jsonLine, payloadLines, plain, short, table } from './text.ts'

interface DlqFlags extends SiteFlags {
  readonly store: string
}

interface SelectionFlags extends DlqFlags {
  readonly rule?: string
  readonly channel?: string
  readonly all?: boolean
  readonly yes?: boolean
}

/** As many as a person looks through. */
const listedMax = 50
const reasonCharactersMax = 60
const nameCharactersMax = 40

/** Adds the commands to `sluice dlq`. */
export function addCommands(dlq: Command, sources: Sources): void {
  dlq.description('Works on the dead letters of a writer: messages that could not be decoded or stored.')

  addDlqCommand(dlq, 'ls')
    .description('Lists the dead letters that nobody has done anything about, the newest last.')
    .option('--rule <rule>', 'only those that broke this rule')
    .option('--channel <id>', 'only those of this channel')
    .option('--limit <n>', `the newest so many (default: ${listedMax}; all with --json)`, parseLimit)
    .option('--all', 'those that were replayed or dropped, too')
    .option('--json', 'a JSON object on each line')
    .addHelpText(
      'after',
      `
Examples:
  SVC_LOG_BROKERS=kafka:9092 sluice dlq ls
  sluice dlq ls --rule one-value --limit 10
  sluice dlq ls --all --json | jq -r .id
  sluice dlq ls --url http://127.0.0.1:8080 --token "$TOKEN"
`,
    )
    .action(async ({ limit, json = false, ...flags }: SelectionFlags & { limit?: number; json?: boolean }) => {
      const { rule, channel, all } = flags
      const selection = selectionOf({ rule, channel, all })
      await withLetters(flags, sources, async letters => {
        if (json && limit === undefined) return writeLines(linesOf(letters.each(selection)))
        const page = await letters.list(selection, limit ?? listedMax)
        return writeOutput(json ? page.letters.map(jsonLine).join('') : listing(page.letters, page.total))
      })
    })

  addDlqCommand(dlq, 'show')
    .argument('<id>', 'of the message: <log>-<partition>-<offset>, or <partition>-<offset>', parseId)
    .description('Prints a dead letter with everything: what is wrong with it, its headers, its payload.')
    .option('--json', 'as a JSON object, with its bytes as base64')
    .addHelpText(
      'after',
      '\nNothing of it is executed: what a terminal would act on is escaped.\n\nExamples:\n  sluice dlq show 1-3-1234\n  sluice dlq show 3-1234 --json | jq -r .payload | base64 -d\n',
    )
    .action(async (id: string, { json = false, ...flags }: DlqFlags & { json?: boolean }) => {
      const letters = await withLetters(flags, sources, letters => letters.show(id))
      if (letters.length === 0) throw new ToolError(`no dead letter has the id ${id}: sluice dlq ls --all shows them`)
      await writeOutput(letters.map(json ? jsonLine : portrait).join(json ? '' : '\n'))
    })

  addSettlingCommand(dlq, 'replay', 'replayed')
    .description('Hands messages to their writer once more, for instance after its options have changed.')
    .addHelpText(
      'after',
      `
A replayed message is stored where it was at first, with its own time, and once, however often it is replayed. One that fails again is a
dead letter again.

Examples:
  sluice dlq replay 1-3-1234 1-3-1240
  sluice dlq replay --rule format-limit
  sluice dlq replay --all
`,
    )
    .action(async (ids: string[], flags: SelectionFlags) => settle('replay', ids, flags, sources))

  addSettlingCommand(dlq, 'drop', 'dropped')
    .description('Puts dead letters aside for good: they are kept, and no longer listed.')
    .addHelpText('after', '\nExamples:\n  sluice dlq drop 1-3-1234\n  sluice dlq drop --rule one-value --channel "$CHANNEL"\n')
    .action(async (ids: string[], flags: SelectionFlags) => settle('drop', ids, flags, sources))
}

function addDlqCommand(dlq: Command, name: string): Command {
  return addSiteOptions(dlq.command(name)).option('--store <name>', `the store of the writer: ${storeNamesText}`, 'relational')
}

function addSettlingCommand(dlq: Command, name: string, participle: string): Command {
  return addDlqCommand(dlq, name)
    .argument(
      '[id...]',
      `of the messages that are to be ${participle}`,
      (text: string, before: readonly string[]) => [...before, parseId(text)],
      [],
    )
    .option('--rule <rule>', 'all that broke this rule')
    .option('--channel <id>', 'all of this channel')
    .option('--all', 'every one that is listed as open')
    .option('--yes', 'do not ask')
}

async function settle(action: 'replay' | 'drop', ids: readonly string[], flags: SelectionFlags, sources: Sources): Promise<void> {
  const { rule, channel, all, yes = false } = flags
  if (ids.length === 0 && rule === undefined && channel === undefined && all !== true) {
    throw new ToolError(`say which dead letters to ${action}: ids, --rule, --channel, or --all`)
  }
  if (ids.length > 0 && all === true) throw new ToolError(`give the ids of dead letters to ${action}, or --all`)
  // Here, --all is every open one, and no wider than a rule or a channel beside it.
  const selection = selectionOf({ rule, channel, ...(ids.length > 0 ? { ids } : {}) })
  const settled = await withLetters(flags, sources, async letters => {
    if (all === true && !yes && process.stdin.isTTY && !(await confirmed(letters, action, selection))) return undefined
    return letters[action](selection)
  })
  if (settled === undefined) throw new ToolError('nothing was done')
  const done = action === 'replay' ? 'replayed: the writer stores them now, or they are dead letters again' : 'dropped'
  const count = `${settled.settled} dead ${settled.settled === 1 ? 'letter' : 'letters'}`
  await writeOutput(settled.settled === 0 ? 'nothing was done: no open dead letter is meant (dlq ls lists them)\n' : `${count} ${done}\n`)
  const left = leftWords(settled)
  if (left.length > 0) throw new ToolError(left.join('\n'))
}

/** What was not done, and what can be done about it. */
function leftWords({ shortened, refused, missing }: Settlement): string[] {
  const words: string[] = []
  if (shortened.length > 0) {
    words.push(
      `of ${shortened.join(', ')} the letters hold nothing, since the messages were too large for them: read them from their topic, where they lie at these positions, or drop the letters`,
    )
  }
  if (refused.length > 0) {
    words.push(
      `the messages ${refused.join(', ')} are too large for the topic of replays: raise its max.message.bytes to that of the topic of dead letters, and replay them again`,
    )
  }
  if (missing.length > 0) words.push(`no dead letter has the id ${missing.join(', ')}`)
  return words
}

async function confirmed(letters: Letters, action: string, selection: Selection): Promise<boolean> {
  const { total } = await letters.list(selection, 0)
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await terminal.question(`${action} all ${total} open dead letters? [y/N] `)).trim())
  } finally {
    terminal.close()
  }
}

async function withLetters<Result>(flags: DlqFlags, sources: Sources, work: (letters: Letters) => Promise<Result>): Promise<Result> {
  return explained(async () => {
    if (flags.url !== undefined) return work(openRemote(flags.url, flags.token).letters)
    const site = await openSite(storeNamed(flags.store), flags, sources)
    try {
      return await work(await site.openLetters())
    } finally {
      await site.close()
    }
  })
}

function selectionOf(selection: { [Key in keyof Selection]: Selection[Key] | undefined }): Selection {
  return Object.fromEntries(Object.entries(selection).filter(([, value]) => value !== undefined))
}

function parseId(text: string): string {
  if (parseMessageId(text) === undefined) throw new InvalidArgumentError('Give <log>-<partition>-<offset>, as ingest answered it.')
  return text
}

function parseLimit(text: string): number {
  const limit = Number(text)
  if (!/^\d{1,4}$/.test(text) || limit < 1 || limit > 1000) throw new InvalidArgumentError('Give a whole number from 1 to 1000.')
  return limit
}

function listing(letters: readonly Letter[], total: number): string {
  if (total === 0) return 'there are no such dead letters\n'
  const rows = letters.map(({ id, state, rule, channel, subtopic, record, reason }) => [
    id,
    state,
    short(rule, nameCharactersMax),
    short(channel, nameCharactersMax),
    short(subtopic === '' ? '-' : subtopic, nameCharactersMax),
    record === undefined ? '-' : String(record),
    short(reason, reasonCharactersMax),
  ])
  const older = total - letters.length
  const more = older > 0 ? `and ${older} older ones: see them with --limit, or all of them with --json\n` : ''
  return table([['ID', 'STATE', 'RULE', 'CHANNEL', 'SUBTOPIC', 'RECORD', 'REASON'], ...rows]) + more
}

async function* linesOf(letters: AsyncIterable<Letter>): AsyncGenerator<string> {
  for await (const letter of letters) yield jsonLine(letter)
}

function portrait(letter: FullLetter): string {
  const lines: [string, string][] = [
    ['message', `${letter.id}, of the topic ${plain(letter.topic)}`],
    ['state', letter.state],
    ['rule', plain(letter.rule)],
    ['reason', plain(letter.reason)],
  ]
  if (letter.hint !== undefined) lines.push(['hint', plain(letter.hint)])
  if (letter.record !== undefined) lines.push(['record', `${letter.record}, counted from 0`])
  lines.push(
    ['channel', letter.channel === '' && letter.key !== null ? `none; the key is ${letter.key} in base64` : plain(letter.channel)],
    ['subtopic', plain(letter.subtopic)],
    ['publisher', plain(letter.publisher)],
    ['protocol', plain(letter.protocol)],
    ['created', `${letter.created} ns since 1970`],
    ['type', plain(letter.content_type)],
  )
  for (const { name, value, base64 = false } of letter.headers) {
    lines.push(['header', `${plain(name)}: ${value === null ? 'null' : plain(value)}${base64 ? ' (base64)' : ''}`])
  }
  const where = letter.shortened_bytes === undefined ? '' : `; the message of ${letter.shortened_bytes} bytes was too large for its letter`
  lines.push(['payload', `${letter.payload_bytes} bytes${where}`])
  const head = lines.map(([name, value]) => `${name.padEnd(9)}  ${value}`.trimEnd())
  return `${[...head, ...payloadLines(Buffer.from(letter.payload, 'base64'))].join('\n')}\n`
}

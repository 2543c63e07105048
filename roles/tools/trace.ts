// `sluice trace`: the way of one message, from its receipt to where it can be read. Exit code 1: it is missing; 2: it could not be asked.

import { Argument, type Command } from 'commander'
import { ToolError, writeOutput } from '../../bin/streams.ts'
import { type TraceReport, trace } from '../../pipeline/audit/trace.ts'
import { type Letters, openLetters } from '../../pipeline/letters/letters.ts'
import { parseMessageId } from '../../pipeline/message-id.ts'
import { storeNamesText } from '../stores/store.ts'
import { answered, answering } from './failure.ts'
import { checkRemoteStore, openRemote } from './remote.ts'
import { addSiteOptions, openSite, type SiteFlags, type Sources, storeNamed } from './site.ts'
import { jsonLine, plain } from './text.ts'

interface TraceFlags extends SiteFlags {
  readonly reader?: string
  readonly json?: boolean
}

/** Makes `sluice trace`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addSiteOptions(command))
    .argument('<id>', 'of the message, as ingest answered it: <log>-<partition>-<offset>; the log is its topic, or its number in the store')
    .addArgument(new Argument('[store]', storeNamesText).default('relational'))
    .option('--reader <url>', 'of the reader, for the last line: http://127.0.0.1:9092')
    .option('--json', 'as a JSON object')
    .description('Says what has become of a message: received, matched, decoded, stored or dead-lettered, and where it can be read.')
    .addHelpText(
      'after',
      '\nExit code 0: it is told. 1: the message is missing. 2: it could not be asked.\n\nExamples:\n  sluice trace messages-3-1234\n  SVC_DOCUMENT_URL=mongodb://… sluice trace messages-3-1234 document\n  sluice trace 1-3-1234 relational --config writer.toml --reader http://reader:9092\n  sluice trace 1-0-17 --url http://127.0.0.1:8080 --token "$TOKEN"\n',
    )
    .action((id: string, store: string, { json = false, ...flags }: TraceFlags) =>
      answered(async () => {
        const report = await traced(id, store, flags, sources)
        await writeOutput(json ? jsonLine(report) : words(report, flags.reader ?? flags.url))
        return report.state !== 'missing'
      }),
    )
}

async function traced(text: string, storeName: string, flags: TraceFlags, sources: Sources): Promise<TraceReport> {
  const id = parseMessageId(text)
  if (id === undefined)
    throw new ToolError(`${JSON.stringify(text)} is no id of a message: give <log>-<partition>-<offset>, as ingest answered it`)
  const store = storeNamed(storeName)
  if (flags.url !== undefined) {
    checkRemoteStore(store)
    return openRemote(flags.url, flags.token).trace(text)
  }
  const site = await openSite(store, flags, sources)
  try {
    const [reader, audit] = [await site.openTopic(), await site.openAudit()]
    const lettersOf = async (owner: string): Promise<Letters | undefined> => {
      const letters = await site.openLettersTopic(owner)
      return letters === undefined ? undefined : openLetters({ reader: letters, log: readOnly, replays: async () => readOnly })
    }
    return await trace({
      id,
      reader,
      audit,
      decoder: site.decoder(),
      lettersOf,
      ...(site.committed === undefined ? {} : { committed: site.committed }),
    })
  } finally {
    await site.close()
  }
}

/** A trace lists letters and settles none. */
const readOnly = {
  name: '',
  id: '',
  append: () => Promise.reject(new Error('a trace writes nothing')),
  close: async () => undefined,
}

const nameWidth = 13

/** @param readerUrl the path alone is shown without one */
function words(report: TraceReport, readerUrl: string | undefined): string {
  const lines: [string, string][] = [['message', `${report.id}, of the log ${plain(report.topic)}`]]
  const { received, absent, matched, decoded, refused, letter, writer } = report
  if (received === undefined) lines.push(['received', `unknown: ${absent}`])
  else {
    const { time, channel, subtopic, publisher, protocol, content_type: type, bytes } = received
    lines.push(['received', `${time} by ${plain(protocol)}, ${bytes} bytes of ${type === '' ? 'no content type' : plain(type)}`])
    lines.push([
      '',
      `channel ${channel === '' ? 'unknown' : plain(channel)}, subtopic ${subtopic === '' ? 'none' : plain(subtopic)}, publisher ${publisher === '' ? 'unknown' : plain(publisher)}`,
    ])
    lines.push(['matched', matched === true ? `the writer ${writer}` : `no writer subscribes to this subject: ${writer} does not`])
    if (decoded !== undefined)
      lines.push(['decoded', `${decoded.records} ${decoded.records === 1 ? 'record' : 'records'} of the format ${plain(decoded.format)}`])
    else if (refused !== undefined) lines.push(['decoded', `no: ${refusedWords(refused)}`])
    else if (matched === true) lines.push(['decoded', 'no record: the message is empty'])
  }
  lines.push(stateWords(report))
  if (letter !== undefined && report.state !== 'dead-lettered') lines.push(['dead letter', `${letter.state}: ${refusedWords(letter)}`])
  if (report.read !== undefined) lines.push(['read', `GET ${(readerUrl ?? '').replace(/\/+$/, '')}${plain(report.read)}`])
  return lines.map(([name, value]) => `${name.padEnd(nameWidth)}${value}\n`).join('')
}

function stateWords(report: TraceReport): [string, string] {
  const { state, rows, decoded, position, letter, trouble, id } = report
  const offset = Number(id.split('-').at(-1))
  const at =
    position === undefined
      ? 'the writer has not begun this partition'
      : `the writer is at offset ${position}, ${offset - position} before it`
  switch (state) {
    case 'stored':
      return [
        'stored',
        `${rows} ${rows === 1 ? 'row' : 'rows'}${rows === decoded?.records ? '' : `, where ${decoded?.records ?? 0} are expected`}`,
      ]
    case 'waiting':
      return ['waiting', at]
    case 'retrying':
      return ['retrying', `${at}: ${plain(trouble ?? '')}`]
    case 'dead-lettered':
      return ['dead letter', `${letter!.state}: ${refusedWords(letter!)}`]
    case 'filtered':
      return ['stored', 'no: it is filtered']
    case 'empty':
      return ['stored', 'no: there is nothing to store']
    case 'missing':
      return ['stored', 'NO, and there is no dead letter: it is missing; look with sluice verify']
    case 'unknown':
    default:
      return ['stored', 'unknown: without the message the store cannot be asked for it']
  }
}

function refusedWords({ rule, reason, record, hint }: { rule: string; reason: string; record?: number; hint?: string }): string {
  const at = record === undefined ? '' : `, record ${record}`
  return `${plain(reason)} (rule ${plain(rule)}${at})${hint === undefined ? '' : `: ${plain(hint)}`}`
}

// `./sluice trace`: follows one message from its receipt to the place where it can be read. Exit code 1: the message is missing; 2: the trace failed.

import { Argument, type Command } from 'commander'
import { ToolError, writeOutput } from '../../bin/streams.ts'
import { type TraceReport, trace } from '../../pipeline/audit/trace.ts'
import { type DeadLetterQueue, openDeadLetterQueue } from '../../pipeline/dead-letters/queue.ts'
import { topicsText } from '../../pipeline/kafka/topic-patterns.ts'
import { type MessageId, parseMessageId } from '../../pipeline/message-id.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import { storeNamesText } from '../stores/store.ts'
import { answered, answering } from './failure.ts'
import { addTargetOptions, type Sources, storeNamed, type TargetFlags } from './target/flags.ts'
import { checkRemoteStore, openRemote } from './target/remote.ts'
import { jsonLine, plain } from './text.ts'

interface TraceFlags extends TargetFlags {
  readonly reader?: string
  readonly json?: boolean
}

/** Adds `./sluice trace`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addTargetOptions(command))
    .argument(
      '<id>',
      'id of the message, as returned by ingest: <log>-<partition>-<offset>; the log is a topic, or its number in the store',
    )
    .addArgument(new Argument('[store]', storeNamesText).default('relational'))
    .option('--reader <url>', 'address of a reader, for the link in the last line: http://127.0.0.1:9092')
    .option('--json', 'print a JSON object')
    .description('Prints what happened to a message: received, filtered, decoded, stored or dead-lettered, and where to read it.')
    .addHelpText(
      'after',
      '\nRun it with the options of the writer. It only reads, so the writer can keep running.\n\nExit code 0: the message is accounted for. 1: it is missing. 2: the trace failed, for example because the store is unavailable.\n\nExamples:\n  ./sluice trace messages-3-1234\n  SVC_DOCUMENT_URL=mongodb://… ./sluice trace messages-3-1234 document\n  ./sluice trace 1-3-1234 relational --config writer.toml --reader http://reader:9092\n  ./sluice trace 1-0-17 --url http://127.0.0.1:8080 --token "$TOKEN"\n',
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
    throw new ToolError(`${JSON.stringify(text)} is not a message id: give <log>-<partition>-<offset>, as returned by ingest`)
  const store = storeNamed(storeName)
  if (flags.url !== undefined) {
    checkRemoteStore(store)
    return openRemote(flags.url, flags.token).trace(text)
  }
  const { openTarget } = await import('./target/target.ts')
  const target = await openTarget(store, flags, sources)
  try {
    const audit = await target.openAudit()
    const reader = await target.openTopic(await topicOf(id, await target.topics(), audit))
    const deadLettersOf = async (owner: string): Promise<DeadLetterQueue | undefined> => {
      const deadLetters = await target.openDeadLettersTopic(reader.name, owner)
      return deadLetters === undefined ? undefined : openDeadLetterQueue({ reader: deadLetters, log: readOnly })
    }
    return await trace({
      id,
      reader,
      audit,
      writer: target.writer,
      decoder: target.decoder(),
      deadLettersOf,
      ...(target.committed === undefined ? {} : { committed: target.committed }),
    })
  } finally {
    await target.close()
  }
}

/** The topic that an id names; `trace` checks it if there is only one. @throws ToolError */
async function topicOf({ log }: MessageId, topics: readonly string[], audit: Pick<StoreAudit, 'logs'>): Promise<string> {
  if (topics.length === 1) return topics[0]!
  if (log === '') throw new ToolError('the writer reads several topics: give <topic>-<partition>-<offset>')
  const found = topics.includes(log) ? log : (await audit.logs()).find(({ number }) => String(number) === log)?.name
  if (found !== undefined && topics.includes(found)) return found
  throw new ToolError(`the message is from the log ${JSON.stringify(log)}, but this writer reads ${topicsText(topics)}`)
}

/** A trace lists letters and resolves none. */
const readOnly = {
  name: '',
  id: '',
  append: () => Promise.reject(new Error('a trace is read-only')),
  close: async () => undefined,
}

const nameWidth = 13

/** @param readerUrl if undefined, only the path is shown */
function words(report: TraceReport, readerUrl: string | undefined): string {
  const lines: [string, string][] = [['message', `${report.id}, of the log ${plain(report.topic)}`]]
  const { received, absent, matched, decoded, refused, letter: deadLetter, writer } = report
  if (received === undefined) lines.push(['received', `unknown: ${absent}`])
  else {
    const { time, channel, subtopic, publisher, protocol, content_type: type, bytes } = received
    lines.push(['received', `${time} by ${plain(protocol)}, ${bytes} bytes, ${type === '' ? 'no content type' : plain(type)}`])
    lines.push([
      '',
      `channel ${channel === '' ? 'unknown' : plain(channel)}, subtopic ${subtopic === '' ? 'none' : plain(subtopic)}, publisher ${publisher === '' ? 'unknown' : plain(publisher)}`,
    ])
    lines.push([
      'matched',
      matched === true ? `the writer ${writer}` : `no: the filters of the writer ${writer} exclude this subject or content type`,
    ])
    if (decoded !== undefined)
      lines.push(['decoded', `${decoded.records} ${decoded.records === 1 ? 'record' : 'records'} of the format ${plain(decoded.format)}`])
    else if (refused !== undefined) lines.push(['decoded', `no: ${refusedWords(refused)}`])
    else if (matched === true) lines.push(['decoded', 'no record: the message is empty'])
  }
  lines.push(stateWords(report))
  if (deadLetter !== undefined && report.state !== 'dead-lettered')
    lines.push(['dead letter', `${deadLetter.state}: ${refusedWords(deadLetter)}`])
  if (report.read !== undefined) lines.push(['read', `GET ${(readerUrl ?? '').replace(/\/+$/, '')}${plain(report.read)}`])
  if (report.statement !== undefined) lines.push(['statement', plain(report.statement)])
  return lines.map(([name, value]) => `${name.padEnd(nameWidth)}${value}\n`).join('')
}

function stateWords(report: TraceReport): [string, string] {
  const { state, rows, decoded, erased, position, letter: deadLetter, trouble, id } = report
  const offset = Number(id.split('-').at(-1))
  const at =
    position === undefined
      ? 'the writer has not started this partition'
      : `the writer is at offset ${position}, ${offset - position} behind it`
  switch (state) {
    case 'stored':
      return ['stored', `${rows} ${rows === 1 ? 'row' : 'rows'}${rows === decoded?.records ? '' : `, ${expectedWords()}`}`]
    case 'erased':
      return [
        'stored',
        `no: erased on ${erased!.time} (${erased!.retention === true ? 'by a retention' : './sluice erase'}, ${erased!.id})`,
      ]
    case 'waiting':
      return ['waiting', at]
    case 'retrying':
      return ['retrying', `${at}: ${plain(trouble ?? '')}`]
    case 'dead-lettered':
      return ['dead letter', `${deadLetter!.state}: ${refusedWords(deadLetter!)}`]
    case 'filtered':
      return ['stored', 'no: filtered']
    case 'empty':
      return ['stored', 'no: nothing to store']
    case 'missing':
      return ['stored', 'NO, and there is no dead letter: the message is missing; run ./sluice verify']
    case 'unknown':
    default:
      return ['stored', 'unknown: without the message, its rows cannot be found in the store']
  }

  function expectedWords(): string {
    const expected = `${decoded?.records ?? 0} expected`
    return erased === undefined ? expected : `${expected}, of which ${erased.rows_left} were not erased on ${erased.time}`
  }
}

function refusedWords({ rule, reason, record, hint }: { rule: string; reason: string; record?: number; hint?: string }): string {
  const at = record === undefined ? '' : `, record ${record}`
  return `${plain(reason)} (rule ${plain(rule)}${at})${hint === undefined ? '' : `: ${plain(hint)}`}`
}

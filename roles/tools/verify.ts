// `./sluice verify`: compares a store with its log. Exit code 0: they agree; 1: they do not; 2: the comparison failed.

import type { Command } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import type { PartitionReport } from '../../pipeline/audit/partition.ts'
import { type VerifyReport, verify } from '../../pipeline/audit/verify.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import { storeNamesText } from '../stores/store.ts'
import { answered, answering } from './failure.ts'
import { openProgress } from './progress.ts'
import { addTargetOptions, type Sources, storeNamed, type TargetFlags } from './target/flags.ts'
import { checkRemoteStore, openRemote } from './target/remote.ts'
import { jsonLine, plain } from './text.ts'

interface VerifyFlags extends TargetFlags {
  readonly contents?: boolean
  readonly json?: boolean
}

/** Adds `./sluice verify`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addTargetOptions(command))
    .argument('<store>', storeNamesText)
    .option('--contents', 'compare every column of every row, and not only the number of rows')
    .option('--json', 'print a JSON object')
    .description('Compares a store with its log, message by message: each must be stored exactly once or be a dead letter.')
    .addHelpText(
      'after',
      `
Reads the messages that are still in the log, up to the position of the writer, decodes them as the writer does, and compares them with
the rows in the store, with the dead letters and with what ./sluice erase and retentions have deleted. No faults means:

  without --contents   each message has as many rows in the store as it decodes to, and none of them twice, or it is a dead letter, empty
                       or filtered; what is in the rows is not compared
  with --contents      the same, and every column of every row is what the message decodes to; about five times as slow at most. Payloads are
                       compared as readers return them: neither the order of their keys nor the notation of their numbers counts

Neither compares rows of messages that the log has deleted, that are above the position of the writer, or that the store rejected in part,
rows of other logs and writers, and what others have added to the tables.

Prints for each partition the offsets that were compared, the counts

  received = stored + empty + filtered + dead-lettered + erased

the same counts as a relational store keeps them (ledger), and the first faults.

Messages that the log has deleted, from its start or by compaction, can no longer be compared: they are counted, not reported as faults.

Run it with the options of the writer. It only reads, so the writer can keep running. It keeps only the dead letters in memory.

If the writer reads several topics (log.topics), there is a report for each; with --json they are in {"holds": …, "topics": […]}.

Exit code 0: no faults. 1: faults. 2: the comparison failed, for example because the store is unavailable.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… ./sluice verify relational
  ./sluice verify relational --config writer.toml --json | jq .holds
  ./sluice verify relational --contents
  SVC_LOG_BROKERS=kafka:9092 SVC_DOCUMENT_URL=mongodb://… ./sluice verify document
  ./sluice verify relational --url http://127.0.0.1:8080 --token "$TOKEN"
`,
    )
    .action((store: string, { json = false, ...flags }: VerifyFlags) =>
      answered(async () => {
        const reports = await reported(store, flags, sources)
        const holds = reports.every(report => report.holds)
        const object = reports.length === 1 ? reports[0]! : { holds, topics: reports }
        await writeOutput(json ? jsonLine(object) : reports.map(reportWords).join('\n'))
        return holds
      }),
    )
}

/** Of one of several topics, of which the store has nothing. */
interface UnreadTopic {
  readonly topic: string
  readonly in_flight: number
  readonly holds: true
}

/** One for each topic. */
async function reported(storeName: string, flags: VerifyFlags, sources: Sources): Promise<(VerifyReport | UnreadTopic)[]> {
  const { contents = false } = flags
  const store = storeNamed(storeName)
  if (flags.url !== undefined) {
    checkRemoteStore(store)
    return [await openRemote(flags.url, flags.token).verify(contents)]
  }
  const { openTarget } = await import('./target/target.ts')
  const target = await openTarget(store, flags, sources)
  const progress = openProgress('offsets compared')
  try {
    const [topics, audit] = [await target.topics(), await target.openAudit()]
    const known = new Set((await audit.logs()).map(log => log.name))
    const reports: (VerifyReport | UnreadTopic)[] = []
    for (const topic of topics) {
      const reader = await target.openTopic(topic)
      // One of several topics may have no messages yet; if the store has none at all, it is the wrong one.
      if (topics.some(other => known.has(other)) && !known.has(topic)) {
        reports.push(await unreadTopic(reader))
        continue
      }
      const report = await verify({
        reader,
        audit,
        writer: target.writer,
        decoder: target.decoder(),
        deadLettersOf: owner => target.openDeadLettersTopic(topic, owner),
        ...(target.committed === undefined ? {} : { committed: target.committed }),
        contents,
        onProgress: progress.show,
      })
      reports.push(report)
    }
    return reports
  } finally {
    progress.end()
    await target.close()
  }
}

async function unreadTopic(reader: TopicReader): Promise<UnreadTopic> {
  let inFlight = 0
  for (const { start, end } of (await reader.bounds()).values()) inFlight += end - start
  return { topic: reader.name, in_flight: inFlight, holds: true }
}

function reportWords(report: VerifyReport | UnreadTopic): string {
  if ('partitions' in report) return verifyWords(report)
  return `log ${report.topic}: the store has no messages of it yet, ${report.in_flight} in flight\n`
}

/** The report as text. */
export function verifyWords(report: VerifyReport): string {
  const { topic, writer, log, contents, partitions, letters_lost_below: lost, erasures_unfinished: unfinished, holds } = report
  const lines = [`log ${topic} (${log} in the store), writer ${writer}`, '']
  for (const partition of partitions) lines.push(...partitionWords(partition), '')
  if (lost !== undefined) {
    lines.push(
      'the start of the dead-letter topic was deleted: a message that is neither stored nor dead-lettered is assumed to have had its dead letter there',
      '',
    )
  }
  if (unfinished !== undefined) {
    lines.push(
      `${unfinished} ${unfinished === 1 ? 'erasure has' : 'erasures have'} not ended (./sluice erase --list): run it again, or wait for its end; until then no row that it reaches can count as missing`,
      '',
    )
  }
  const received = partitions.reduce((sum, { recount }) => sum + recount.received, 0)
  const inFlight = partitions.reduce((sum, partition) => sum + partition.in_flight, 0)
  const unread = partitions.reduce((sum, { ledger }) => sum + (ledger?.lost ?? 0), 0)
  const lostWords = unread > 0 ? `; ${unread} lost: deleted from the log unread, or skipped by the writer` : ''
  const wrong = partitions.filter(partition => !partition.holds).length
  lines.push(
    holds
      ? `ok: ${received} messages in ${partitions.length} ${partitions.length === 1 ? 'partition' : 'partitions'}${contents ? ', with every column of their rows' : ''}, ${inFlight} more in flight${lostWords}`
      : wrong === 0
        ? `no faults found, and an erasure has not ended${lostWords}`
        : `faults in ${wrong} of ${partitions.length} partitions${lostWords}`,
  )
  return `${lines.join('\n')}\n`
}

function partitionWords(report: PartitionReport): string[] {
  const {
    partition,
    checked,
    unchecked,
    recount,
    ledger,
    ledger_covers_more: coversMore,
    in_flight: inFlight,
    faults,
    first,
    holds,
  } = report
  const range = checked.to > checked.from ? `offsets ${checked.from} to ${checked.to - 1} compared` : 'nothing to compare'
  const gone = checked.from > 0 ? `; the log starts at ${checked.from}, and earlier messages can no longer be compared` : ''
  const deleted = unchecked > 0 ? `; ${unchecked} offsets were deleted in the meantime or skipped` : ''
  const lines = [`partition ${partition}: ${range}${gone}${deleted}, ${inFlight} in flight`]
  const { received, stored, erased, empty, filtered, dead_lettered: dead, skipped, deleted: compacted, open, replayed, partial } = recount
  const missing = faults.missing ?? 0
  const unlettered = faults['missing dead letter'] ?? 0
  const wrongly = missing + unlettered > 0 ? ` + missing ${missing + unlettered}` : ''
  lines.push(
    `  counted  received ${received} = stored ${stored} + empty ${empty} + filtered ${filtered} + dead-lettered ${dead}${erased > 0 ? ` + erased ${erased}` : ''}${wrongly}; skipped ${skipped}`,
  )
  if (compacted > 0) {
    lines.push(
      `  deleted  ${compacted} by the log, which is compacted: these can no longer be compared; the store has rows of ${recount.deleted_stored}`,
    )
  }
  if (open > 0) lines.push(`           of the dead-lettered, ${open} are open: list them with ./sluice dlq ls`)
  if (replayed > 0) lines.push(`           of the dead-lettered, ${replayed} were replayed and are stored`)
  if (partial > 0) lines.push(`           of the dead-lettered, ${partial} have some rows in the store, which rejected others`)
  if (erased > 0) lines.push(`           the erased messages were stored, and ./sluice erase or a retention has deleted their rows`)
  if (ledger !== undefined) {
    const { copiedBelow } = ledger
    const copied = copiedBelow === undefined ? '' : `; counts from offset ${copiedBelow} on, below which another store was copied`
    lines.push(
      `  ledger   received ${ledger.received} = stored ${ledger.stored} + empty ${ledger.empty} + filtered ${ledger.filtered} + dead-lettered ${ledger.deadLettered} + duplicate ${ledger.duplicate}; skipped ${ledger.skipped}${ledger.lost > 0 ? `, lost ${ledger.lost}` : ''}${coversMore ? '; includes messages that could not be compared' : ''}${copied}`,
    )
  }
  if (!holds) {
    lines.push(
      `  WRONG    ${Object.entries(faults)
        .map(([kind, count]) => `${kind} ${count}`)
        .join(', ')}`,
    )
    for (const { kind, id, detail } of first) lines.push(`           ${id} ${kind}: ${plain(detail)}`)
    const sum = Object.values(faults).reduce((one, other) => one + other, 0)
    if (sum > first.length) lines.push(`           and ${sum - first.length} more`)
  }
  return lines
}

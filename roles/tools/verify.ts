// `sluice verify`: holds a store against its log. Exit code 0: it holds; 1: it does not; 2: it could not be asked.

import type { Command } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import type { PartitionReport } from '../../pipeline/audit/partition.ts'
import { type VerifyReport, verify } from '../../pipeline/audit/verify.ts'
import { storeNamesText } from '../stores/store.ts'
import { answered, answering } from './failure.ts'
import { openProgress } from './progress.ts'
import { checkRemoteStore, openRemote } from './remote.ts'
import { addSiteOptions, openSite, type SiteFlags, type Sources, storeNamed } from './site.ts'
import { jsonLine, plain } from './text.ts'

interface VerifyFlags extends SiteFlags {
  readonly json?: boolean
}

/** Makes `sluice verify`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addSiteOptions(command))
    .argument('<store>', storeNamesText)
    .option('--json', 'as a JSON object')
    .description('Compares a store with its log, message by message: each is there exactly once, or it is a dead letter.')
    .addHelpText(
      'after',
      `
Reads all that the log still holds below where the writer goes on, decodes it as the writer does, and holds the store's rows and the
dead letters against it. Prints for each partition

  received = stored + empty + filtered + dead-lettered

beside the books that a relational store keeps itself, the offsets that could be compared, and the first messages that are not as they
should be. It needs the options that the messages were written with, the right to read, and memory for the dead letters only. The
writer may run.

Exit code 0: it holds. 1: it does not. 2: it could not be asked.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… sluice verify relational
  sluice verify relational --config writer.toml --json | jq .holds
  SVC_LOG_BROKERS=kafka:9092 SVC_DOCUMENT_URL=mongodb://… sluice verify document
  sluice verify relational --url http://127.0.0.1:8080 --token "$TOKEN"
`,
    )
    .action((store: string, { json = false, ...flags }: VerifyFlags) =>
      answered(async () => {
        const report = await reported(store, flags, sources)
        await writeOutput(json ? jsonLine(report) : verifyWords(report))
        return report.holds
      }),
    )
}

async function reported(storeName: string, flags: SiteFlags, sources: Sources): Promise<VerifyReport> {
  const store = storeNamed(storeName)
  if (flags.url !== undefined) {
    checkRemoteStore(store)
    return openRemote(flags.url, flags.token).verify()
  }
  const site = await openSite(store, flags, sources)
  const progress = openProgress('offsets compared')
  try {
    const [reader, audit] = [await site.openTopic(), await site.openAudit()]
    return await verify({
      reader,
      audit,
      decoder: site.decoder(),
      lettersOf: owner => site.openLettersTopic(owner),
      replaysOf: owner => site.openReplaysTopic(owner),
      ...(site.committed === undefined ? {} : { committed: site.committed }),
      onProgress: progress.show,
    })
  } finally {
    progress.end()
    await site.close()
  }
}

/** What a person reads of it. */
export function verifyWords(report: VerifyReport): string {
  const { topic, writer, log, partitions, letters_lost_below: lost, holds } = report
  const lines = [`log ${topic} (${log} in the store), writer ${writer}`, '']
  for (const partition of partitions) lines.push(...partitionWords(partition), '')
  if (lost !== undefined) {
    lines.push('the topic of the dead letters has lost its beginning: a message without a letter is taken to have had one there', '')
  }
  const received = partitions.reduce((sum, { recount }) => sum + recount.received, 0)
  const inFlight = partitions.reduce((sum, partition) => sum + partition.in_flight, 0)
  const unread = partitions.reduce((sum, { ledger }) => sum + (ledger?.lost ?? 0), 0)
  const lostWords = unread > 0 ? `; lost ${unread}, which the log deleted unread` : ''
  const wrong = partitions.filter(partition => !partition.holds).length
  lines.push(
    holds
      ? `it holds: ${received} messages in ${partitions.length} ${partitions.length === 1 ? 'partition' : 'partitions'}, ${inFlight} more in flight${lostWords}`
      : `it does not hold in ${wrong} of ${partitions.length} partitions${lostWords}`,
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
  const gone = checked.from > 0 ? `; the log holds nothing below ${checked.from}` : ''
  const deleted = unchecked > 0 ? `; ${unchecked} offsets were deleted meanwhile` : ''
  const lines = [`partition ${partition}: ${range}${gone}${deleted}, ${inFlight} in flight`]
  const { received, stored, empty, filtered, dead_lettered: dead, skipped, replayed } = recount
  const missing = faults.missing ?? 0
  const unlettered = faults['missing dead letter'] ?? 0
  const wrongly = missing + unlettered > 0 ? ` + missing ${missing + unlettered}` : ''
  lines.push(
    `  counted  received ${received} = stored ${stored} + empty ${empty} + filtered ${filtered} + dead-lettered ${dead}${wrongly}; skipped ${skipped}`,
  )
  if (replayed > 0) lines.push(`           of the dead-lettered, ${replayed} were replayed and are stored`)
  if (ledger !== undefined) {
    lines.push(
      `  books    received ${ledger.received} = stored ${ledger.stored} + empty ${ledger.empty} + filtered ${ledger.filtered} + dead-lettered ${ledger.deadLettered} + duplicate ${ledger.duplicate}; skipped ${ledger.skipped}${ledger.lost > 0 ? `, lost ${ledger.lost}` : ''}${coversMore ? '; they cover more than could be compared' : ''}`,
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

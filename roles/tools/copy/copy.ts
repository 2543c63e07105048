// `./sluice copy`: copies a store to another one, and compares them. Exit code 0: the target has every row; 1: it has not; 2: the copy failed.

import { type Command, Option } from 'commander'
import { ToolError, writeOutput } from '../../../bin/streams.ts'
import { copyStore, type LogCopy } from '../../../pipeline/copy/copy.ts'
import type { AuditedLog } from '../../../sinks/audit.ts'
import { currentLogs } from '../../../sinks/logs.ts'
import { databaseNames, type StoreName, storeNamesText } from '../../stores/store.ts'
import { answered, answering, storeFailure } from '../failure.ts'
import { openProgress } from '../progress.ts'
import { type Sources, storeNamed } from '../target/flags.ts'
import type { Target } from '../target/target.ts'
import { jsonLine } from '../text.ts'
import { type CopyReport, copyWords } from './report.ts'

interface CopyFlags {
  readonly config?: string
  readonly toConfig?: string
  readonly toUrl?: string
  readonly contents?: boolean
  readonly json?: boolean
}

/** Adds `./sluice copy`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(command)
    .argument('<source>', storeNamesText)
    .argument('<target>', 'the same, or another kind')
    .option('--config <file>', "TOML file of the source's writer (default: the path in SVC_<STORE>_WRITER_CONFIG_PATH)")
    .option(
      '--to-config <file>',
      "TOML file of the target's writer (default: that of the source if both are of one kind, else as for the source)",
    )
    .addOption(new Option('--to-url <url>', 'address of the target, instead of that in its options').env('SVC_COPY_URL'))
    .option('--contents', 'compare every column of every row, and not only which rows there are')
    .option('--json', 'print a JSON object')
    .description('Copies all messages of a store to another one, whose writer then continues where that of the source stood.')
    .addHelpText(
      'after',
      `
First stop all processes of the writers of the source: the copy refuses to begin while they run. Messages wait in the log meanwhile.

Rows keep their log, position and index. The target must not have other logs with the same numbers; an empty store is best. It is prepared
as by the start of a writer, with the options of the target: set a retention there that keeps what is to be copied.

After an interruption run the same command again: it continues where the target stands, and stores nothing twice.

At the end both stores are read again and compared: each partition must have the same rows, by their positions and indexes, and with
--contents by all their columns. Messages that the target refuses are listed, and stay in the source; all others are copied.

Then start a writer for the target under the name of the source's writer: with SVC_LOG_GROUP=relational after a copy of a relational store
whose writer had no name of its own. Its dead letters remain in Kafka, and can be replayed into the target.

Documents of a timeseries store are copied as readers return them: without what flattening has left out.

Rows are put into order in a temporary file of up to some 10 GB, in the folder in TMPDIR (default: /var/tmp).

Exit code 0: the target has every row of the source. 1: it lacks some, or has others. 2: the copy failed; run it again.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… SVC_DOCUMENT_URL=mongodb://… ./sluice copy relational document
  ./sluice copy widecolumn relational --config cassandra-writer.toml --to-config postgres-writer.toml --contents
  SVC_COPY_URL=postgres://…@new-server/sluice ./sluice copy relational relational --config writer.toml
  ./sluice copy relational document --json | jq .holds
`,
    )
    .action((source: string, target: string, { json = false, ...flags }: CopyFlags) =>
      answered(async () => {
        const report = await copied(storeNamed(source), storeNamed(target), flags, sources)
        await writeOutput(json ? jsonLine(report) : copyWords(report))
        return report.holds
      }),
    )
}

async function copied(
  from: StoreName,
  to: StoreName,
  { config, toConfig, toUrl, contents = false }: CopyFlags,
  sources: Sources,
): Promise<CopyReport> {
  const { openTarget } = await import('../target/target.ts')
  const source = await openTarget(from, config === undefined ? {} : { config }, sources)
  const progress = openProgress('rows copied')
  const cleanup: (() => Promise<unknown>)[] = [() => source.close()]
  try {
    // A file has the options of one kind of store.
    const toFile = toConfig ?? (from === to ? config : undefined)
    const toFlags = { ...(toFile === undefined ? {} : { config: toFile }), ...(toUrl === undefined ? {} : { storeUrl: toUrl }) }
    const target = await openTarget(to, toFlags, sources)
    cleanup.push(() => target.close())
    const [sourceAudit, targetAudit] = [await source.openAudit(), await target.openAudit()]
    checkApart(source, target)
    const current = new Set(currentLogs(await sourceAudit.logs()).map(({ number }) => number))
    const checkStopped = async (log: AuditedLog): Promise<void> => {
      for (const end of [source, target]) await end.checkStopped(log)
    }
    const logs = await copyStore({
      source: {
        audit: sourceAudit,
        isFlat: source.kind.takesFlat,
        async positionsOf(log) {
          if (current.has(log.number)) await checkStopped(log)
          return await source.positionsOf(log)
        },
      },
      target: {
        audit: targetAudit,
        isFlat: target.kind.takesFlat,
        async positionsOf({ name, writer }, positions) {
          const committed = await target.committed?.(writer, { name, partitions: Math.max(0, ...positions.keys()) + 1 })
          return committed?.offsets ?? new Map()
        },
        async openSink(log) {
          const store = await target.kind.open(target.options.store, log.writer)
          cleanup.push(() => store.close())
          return store.openSink([log], sentence => console.error(sentence)).catch(sayStoreFailure)
        },
        async openReplays(number) {
          const replays = await target.kind.openReplays(target.options.store, target.writer)
          cleanup.push(() => replays.close())
          return replays.openSink(number)
        },
        openErasure: () => target.openErasure(),
      },
      batch: target.options.batch,
      contents,
      onProgress: progress.show,
      onFailure: error =>
        console.error(`${databaseNames[to]} is away, or busy (${error instanceof Error ? error.message : String(error)}): retrying`),
      signal: new AbortController().signal,
    }).catch(sayStoreFailure)
    const isAlike = logs.every(({ partitions }) => partitions.every(({ differing }) => differing.length === 0))
    // Without commits the writer begins at the start of the log, and overwrites what is there.
    if (isAlike && !target.kind.keepsPositions) await commitPositions(logs, current, target)
    return { logs, contents, holds: isAlike && logs.every(log => log.not_copied === 0) }
  } finally {
    progress.end()
    for (const closing of cleanup.toReversed()) await closing()
  }
}

function sayStoreFailure(error: unknown): never {
  throw storeFailure(error)
}

/** @throws ToolError if both are one store */
function checkApart(source: Target, target: Target): void {
  const [one, other] = [source, target].map(({ options }) => (options.store as { readonly url: string }).url)
  if (one === other)
    throw new ToolError(
      'the source and the target are one store: give the address of the target with --to-url, or its file with --to-config',
    )
}

/** The writer of a store without positions goes on where its group stands. */
async function commitPositions(logs: readonly LogCopy[], current: ReadonlySet<number>, target: Target): Promise<void> {
  for (const { log: number, name, id, writer, partitions } of logs) {
    if (!current.has(number)) continue
    const offsets = new Map(
      partitions.flatMap(({ partition, position }) => (position === undefined ? [] : [[partition, position] as const])),
    )
    if (offsets.size > 0) await target.commit({ number, name, id, writer, acceptedMs: 0 }, offsets)
  }
}

// `./sluice logs`: the logs that a store has numbers for, and how a number becomes free for another log.

import { type Command, InvalidArgumentError } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import type { AuditedLog } from '../../sinks/audit.ts'
import { currentLogs } from '../../sinks/logs.ts'
import { limits } from '../../sinks/sink.ts'
import { storeNamesText } from '../stores/store.ts'
import { explained } from './failure.ts'
import { type Sources, storeNamed } from './target/flags.ts'
import { jsonLine, plain, table } from './text.ts'

interface LogsFlags {
  readonly config?: string
  readonly free?: number
  readonly json?: boolean
}

/** Adds `./sluice logs`. */
export function addCommands(command: Command, sources: Sources): void {
  command
    .argument('<store>', storeNamesText)
    .option('--config <file>', "the writer's TOML file (default: the path in SVC_<STORE>_WRITER_CONFIG_PATH)")
    .option('--free <number>', 'free this number; refused while the store has rows of its log', logNumber)
    .option('--json', 'print one JSON object per line')
    .description('Lists the logs of a store. Each topic of each writer is a log with a number, and a recreated topic is another log.')
    .addHelpText(
      'after',
      `
A store has ${limits.log} numbers. When they are used up, free the number of a log whose rows are gone: expired, or deleted manually.

Of the logs with the same name and writer, the current one is the one that the writer reads. To free its number, first stop all processes
of that writer; when started again, the writer begins with the oldest message.

--free checks that the store has no rows of the log, then deletes its registration, offsets and records of replays. It also needs access
to Kafka, for the writer's consumer group and dead letters.

Examples:
  SVC_RELATIONAL_URL=postgres://… ./sluice logs relational
  ./sluice logs relational --config writer.toml --json | jq -r .log
  ./sluice logs relational --config writer.toml --free 3
`,
    )
    .action((storeName: string, { json = false, free, ...flags }: LogsFlags) =>
      explained(async () => {
        const store = storeNamed(storeName)
        const { openTarget } = await import('./target/target.ts')
        const target = await openTarget(store, flags, sources)
        try {
          if (free !== undefined) {
            await target.freeLog(free)
            await writeOutput(`number ${free} is free\n`)
            return
          }
          const logs = await (await target.openAudit()).logs()
          await writeOutput(json ? logLines(logs) : logTable(logs))
        } finally {
          await target.close()
        }
      }),
    )
}

function logNumber(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= 1 && number <= limits.log) return number
  throw new InvalidArgumentError(`Give the number of a log, from 1 to ${limits.log}.`)
}

/** Of each log, by number. Times are in ISO 8601. */
function described(logs: readonly AuditedLog[]) {
  const current = new Set(currentLogs(logs))
  return logs
    .toSorted((one, other) => one.number - other.number)
    .map(log => ({
      number: log.number,
      log: log.name,
      id: log.id,
      writer: log.writer,
      content_types: log.contentTypes ?? null,
      since: new Date(log.acceptedMs).toISOString(),
      current: current.has(log),
    }))
}

function logLines(logs: readonly AuditedLog[]): string {
  return described(logs).map(jsonLine).join('')
}

/** The table for people. */
export function logTable(logs: readonly AuditedLog[]): string {
  const rows = described(logs).map(({ number, log, id, writer, content_types: types, since, current }) => [
    String(number),
    plain(log),
    plain(id),
    plain(writer),
    types === null ? 'all' : plain(types.join(', ')),
    since,
    current ? 'current' : '',
  ])
  return table([['number', 'log', 'id', 'writer', 'content types', 'since', ''], ...rows])
}

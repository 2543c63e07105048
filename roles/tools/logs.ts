// `./sluice logs`: the logs that a store has numbers for, and how a number becomes free for another log.

import { type Command, InvalidArgumentError } from 'commander'
import { writeOutput } from '../../bin/streams.ts'
import type { AuditedLog } from '../../sinks/audit.ts'
import { currentLogs } from '../../sinks/logs.ts'
import { limits } from '../../sinks/sink.ts'
import { storeNamesText } from '../stores/store.ts'
import { explained } from './failure.ts'
import { openTarget, type Sources, storeNamed } from './target.ts'
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
    .option('--free <number>', 'free this number, if the store has no row of its log', logNumber)
    .option('--json', 'as JSON objects, one a line')
    .description('Lists the logs that a store has numbers for: each topic, of each id that it had, of each writer.')
    .addHelpText(
      'after',
      `
A store has ${limits.log} numbers. Of the logs with the same name and writer the current one is written from. A number can be freed once its rows are gone, by
the retention of the store or deleted by hand; that of a current log only while no process of its writer runs, which then begins again
with the oldest message.
--free reads the store for rows of the log, needs Kafka for the writer's group and its dead letters, and deletes its registration, offsets
and notes of replays.

Examples:
  SVC_RELATIONAL_URL=postgres://… ./sluice logs relational
  ./sluice logs relational --config writer.toml --free 3
`,
    )
    .action((storeName: string, { json = false, free, ...flags }: LogsFlags) =>
      explained(async () => {
        const store = storeNamed(storeName)
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
  throw new InvalidArgumentError(`Give the number of a log, from 1 to ${limits.log}`)
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

// The report of `sluice provision`: a line of CSV for each device, on the disk before the next counts, and what a run before it did.

import { type FileHandle, open } from 'node:fs/promises'
import { ToolError } from '../../bin/streams.ts'
import { csvLine, parseCsv } from './csv.ts'

/** `created` (201), `present` (200: the same mapping was there), `valid` (a dry run); the others are failures. */
export type Outcome = 'created' | 'present' | 'valid' | 'conflict' | 'refused' | 'failed'

export interface ReportLine {
  readonly externalId: string
  readonly outcome: Outcome
  readonly things?: readonly { readonly id: string; readonly key: string }[]
  /** In one line. */
  readonly error?: string
}

export interface FleetReport {
  /** External ids that a run before this one has mapped on the same platform. */
  readonly done: ReadonlySet<string>
  /** Resolves when it is on the disk. */
  append(line: ReportLine): Promise<void>
  close(): Promise<void>
}

const columns = ['external_id', 'outcome', 'thing_ids', 'error', 'platform']
const doneOutcomes: ReadonlySet<string> = new Set<Outcome>(['created', 'present'])

/**
 * Opens a report, a new one or one to go on with. A line that an interruption cut off is removed.
 *
 * @param platform its address: one report may tell of several, and each has its own devices
 * @param withKeys adds the column `thing_keys`
 * @throws ToolError for a file that is none, or has other columns
 */
export async function openFleetReport(path: string, { platform, withKeys }: { platform: string; withKeys: boolean }): Promise<FleetReport> {
  const header = csvLine(withKeys ? [...columns, 'thing_keys'] : columns)
  let file: FileHandle
  try {
    // It may hold keys.
    file = await open(path, 'a+', 0o600)
  } catch (error) {
    throw new ToolError(
      `the report ${JSON.stringify(path)} cannot be written (${(error as NodeJS.ErrnoException).code}): name another with --report`,
      { cause: error },
    )
  }
  const done = new Set<string>()
  try {
    const written = await file.readFile('utf8')
    if (!written.startsWith(header) && !header.startsWith(written)) {
      throw new ToolError(
        `${JSON.stringify(path)} is not a report with${withKeys ? '' : 'out'} keys: name another with --report, or move it away`,
      )
    }
    const whole = written.startsWith(header) ? written.slice(0, written.lastIndexOf('\n') + 1) : ''
    if (whole.length < written.length) await file.truncate(Buffer.byteLength(whole))
    if (whole === '') await file.appendFile(header)
    for (const { cells } of parseCsv(path, whole.slice(header.length))) {
      const [externalId = '', outcome = '', , , of] = cells
      if (doneOutcomes.has(outcome) && of === platform) done.add(externalId)
    }
    await file.datasync()
  } catch (error) {
    await file.close()
    throw error
  }

  let waiting = ''
  let flushing: Promise<void> | undefined
  /** Lines that come while others are on their way to the disk go together. */
  async function flush(): Promise<void> {
    const lines = waiting
    waiting = ''
    flushing = undefined
    await file.appendFile(lines)
    await file.datasync()
  }
  let last: Promise<void> = Promise.resolve()

  return {
    done,
    append({ externalId, outcome, things = [], error = '' }) {
      const ids = things.map(({ id }) => id).join(' ')
      const keys = withKeys ? [things.map(({ key }) => key).join(' ')] : []
      waiting += csvLine([externalId, outcome, ids, error, platform, ...keys])
      if (flushing === undefined) {
        flushing = last.then(flush)
        last = flushing
      }
      return flushing
    },
    close: () => file.close(),
  }
}

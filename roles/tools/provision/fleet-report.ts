// The report of `./sluice provision`: a CSV line per device, written durably before the device counts as done, and the results of earlier runs.

import { type FileHandle, open } from 'node:fs/promises'
import { ToolError } from '../../../bin/streams.ts'
import { csvLine, parseCsv } from './csv.ts'

/** `created` (201), `present` (200: the same mapping existed), `valid` (a dry run); the others are failures. */
export type Outcome = 'created' | 'present' | 'valid' | 'conflict' | 'refused' | 'failed'

export interface ReportLine {
  readonly externalId: string
  readonly outcome: Outcome
  readonly things?: readonly { readonly id: string; readonly key: string }[]
  /** By thing, both as PEM; only for a mapping created by this run. */
  readonly certificates?: Readonly<Record<string, { readonly client_cert: string | undefined; readonly client_key: string | undefined }>>
  /** Of a dry run: names of the things whose private keys the response would show once. */
  readonly keysShownOnce?: readonly string[] | undefined
  /** One line. */
  readonly error?: string
}

export interface FleetReport {
  /** External ids that an earlier run has mapped on the same platform. */
  readonly done: ReadonlySet<string>
  /** Resolves when the line is durable. */
  append(line: ReportLine): Promise<void>
  close(): Promise<void>
}

const columns = ['external_id', 'outcome', 'thing_ids', 'error', 'platform']
const doneOutcomes: ReadonlySet<string> = new Set<Outcome>(['created', 'present'])

/**
 * Opens a new report, or an existing one to continue. A last line that was cut off by an interruption is removed.
 *
 * @param platform its address: a report may contain lines of several platforms, each with its own devices
 * @param withKeys adds the columns `thing_keys` and `certificates`; the file is then readable by its owner only
 * @throws ToolError if the file is not a report, or has other columns
 */
export async function openFleetReport(path: string, { platform, withKeys }: { platform: string; withKeys: boolean }): Promise<FleetReport> {
  const header = csvLine(withKeys ? [...columns, 'thing_keys', 'certificates'] : columns)
  let file: FileHandle
  try {
    // Private, because it may contain keys.
    file = await open(path, 'a+', 0o600)
  } catch (error) {
    throw unwritable(path, error)
  }
  const done = new Set<string>()
  try {
    const written = await file.readFile('utf8')
    if (!written.startsWith(header) && !header.startsWith(written)) {
      throw new ToolError(
        `${JSON.stringify(path)} is not a report with${withKeys ? '' : 'out'} keys: choose another with --report, or move it away`,
      )
    }
    if (withKeys) await file.chmod(0o600)
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
    throw error instanceof ToolError ? error : unwritable(path, error)
  }

  let waiting = ''
  let flushing: Promise<void> | undefined
  /** Lines that arrive during a write are written together in the next one. */
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
    append({ externalId, outcome, things = [], certificates = {}, error = '' }) {
      const ids = things.map(({ id }) => id).join(' ')
      // As JSON, in which a PEM has no line breaks, so that each device is exactly one line of the file.
      const certificatesJson = Object.keys(certificates).length === 0 ? '' : JSON.stringify(certificates)
      const keys = withKeys ? [things.map(({ key }) => key).join(' '), certificatesJson] : []
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

function unwritable(path: string, cause: unknown): ToolError {
  const { code } = cause as NodeJS.ErrnoException
  return new ToolError(`the report ${JSON.stringify(path)} cannot be written (${code}): choose another with --report`, { cause })
}

// A store in one file, for one process: each row, log, format, replay, deletion and erasure is a line of JSON, and the last line of a key counts.

import { open } from 'node:fs/promises'
import type { RegisteredFormat } from '../../sinks/formats.ts'
import type { RegisteredLog } from '../../sinks/logs.ts'

/** A SenML record or a JSON document. The packed position is a text of digits, because JSON numbers are not exact. */
export interface FileRow {
  /** `messages` for SenML. */
  readonly format: string
  readonly position: string
  readonly index: number
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Microseconds since 1970; for a document, when it was created. */
  readonly timeUs: number
  readonly name?: string
  readonly unit?: string | undefined
  readonly value?: number | undefined
  readonly stringValue?: string | undefined
  readonly boolValue?: boolean | undefined
  /** Base64. */
  readonly dataValue?: string | undefined
  readonly sum?: number | undefined
  readonly updateTime?: number | undefined
  /** For a document: the nanoseconds beyond `timeUs`, and its JSON text. */
  readonly restNs?: number
  readonly payloadText?: string
}

export type Line =
  | { readonly row: FileRow }
  | { readonly log: RegisteredLog }
  | { readonly format: RegisteredFormat }
  | { readonly replayed: string }
  | { readonly deleted: string }
  | { readonly erased: string }
  | { readonly erasure: string; readonly text: string }
  | { readonly freed: number }

/** The open file, shared by the sinks, readers and audits of the process. All its content is also in memory. */
export interface FileStore {
  readonly rows: Map<string, FileRow>
  readonly logs: Map<number, RegisteredLog>
  readonly formats: Map<string, RegisteredFormat>
  /** Packed positions of the messages that were replayed and stored. */
  readonly replayed: Set<string>
  /** The notes of erasures by their ids. */
  readonly erasures: Map<string, string>
  /**
   * Calls `decide` when no other update is running, and makes the returned lines durable, all or none. A compare-and-set is an update whose
   * `decide` compares.
   *
   * @returns how many lines were written
   */
  update(decide: () => readonly string[]): Promise<number>
  close(): Promise<void>
}

/** The key of a row: writing the same row again replaces it. */
export function rowKey({ format, position, index }: FileRow): string {
  return JSON.stringify([format, position, index])
}

/** @throws the errors of the file system */
export async function openFileStore(path: string): Promise<FileStore> {
  const file = await open(path, 'a+')
  const text = await file.readFile('utf8')
  // A crash may have left part of a line, from a write that was never acknowledged.
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  let size = Buffer.byteLength(whole)
  await file.truncate(size)
  let last: Promise<unknown> = Promise.resolve()
  const store: Omit<FileStore, 'update' | 'close'> = {
    rows: new Map(),
    logs: new Map(),
    formats: new Map(),
    replayed: new Set(),
    erasures: new Map(),
  }

  function apply(line: string): void {
    const entry = JSON.parse(line) as Line
    if ('row' in entry) store.rows.set(rowKey(entry.row), entry.row)
    else if ('log' in entry) store.logs.set(entry.log.number, entry.log)
    else if ('format' in entry) store.formats.set(entry.format.format, entry.format)
    else if ('replayed' in entry) store.replayed.add(entry.replayed)
    else if ('freed' in entry) free(entry.freed)
    else if ('erased' in entry) store.rows.delete(entry.erased)
    else if ('erasure' in entry) store.erasures.set(entry.erasure, entry.text)
    else for (const [key, { position }] of store.rows) if (position === entry.deleted) store.rows.delete(key)
  }

  function free(log: number): void {
    store.logs.delete(log)
    for (const position of store.replayed) if (Number(BigInt(position) >> 56n) === log) store.replayed.delete(position)
  }

  async function write(lines: readonly string[]): Promise<number> {
    if (lines.length === 0) return 0
    const bytes = Buffer.from(`${lines.join('\n')}\n`)
    try {
      await file.appendFile(bytes)
      await file.datasync()
    } catch (error) {
      await file.truncate(size)
      throw error
    }
    size += bytes.length
    for (const line of lines) apply(line)
    return lines.length
  }

  for (const line of whole.split('\n')) if (line !== '') apply(line)
  return {
    ...store,
    update(decide) {
      const updating = last.then(() => write(decide()))
      // The caller gets the error; the next update begins in any case.
      last = updating.catch(() => undefined)
      return updating
    },
    async close() {
      await last
      await file.close()
    },
  }
}

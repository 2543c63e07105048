// A run of messages out of an embedded log: rows read at once, walked by a cursor.

import type { StatementSync } from 'node:sqlite'
import { envelopeHeaders } from '../envelope-headers.ts'
import type { Header } from '../log.ts'
import { emptyMessage, type MessageFault, noKey, type RawCursor, type RawRun } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { checksumOf, type MessageColumns } from './checksum.ts'
import { type LogFile, partition } from './file.ts'

export interface RunLimits {
  /** A run ends with the message that reaches this; so it is exceeded by one message at most. */
  readonly bytesMax: number
  readonly messagesMax: number
  /** What becomes of a message that is not what was appended: an `error`, or in the log of what devices sent a `dead-letter`. */
  readonly damaged?: 'error' | 'dead-letter'
}

export interface RunReader {
  /**
   * The messages from the offset `next` on, as a run that covers `[from, …)`; undefined where there are none yet.
   *
   * @param from at most `next`; smaller where the messages between are lost
   * @throws SystemicError where a damaged message is an error and stands at `next`; a run ends before it
   */
  read(from: number, next: number): RawRun | undefined
}

type Row = Required<MessageColumns>

/** What a row costs in memory beside its payload and texts. */
const rowOverheadBytes = 300

export function openRunReader(file: LogFile, { bytesMax, messagesMax, damaged = 'error' }: RunLimits): RunReader {
  const select: StatementSync = file.database.prepare('SELECT * FROM messages WHERE "offset" >= ? ORDER BY "offset" LIMIT ?')
  select.setReturnArrays(true)
  return {
    read(from, next) {
      if (next >= file.end) return undefined
      const rows: Row[] = []
      let byteLength = 0
      for (const row of select.iterate(next, messagesMax) as Iterable<unknown> as Iterable<Row>) {
        if (damaged === 'error' && isDamaged(row)) {
          if (rows.length === 0) throw damagedError(file, row[0])
          break
        }
        rows.push(row)
        byteLength += rowOverheadBytes + row[9].byteLength + row[1].length + row[2].length + row[3].length + (row[8]?.length ?? 0)
        if (byteLength >= bytesMax) break
      }
      if (rows.length === 0) return undefined
      return {
        partition,
        from,
        to: rows[rows.length - 1]![0] + 1,
        lost: next - from,
        byteLength,
        cursor: () => openCursor(rows, damaged === 'dead-letter'),
      }
    },
  }
}

/** The dead letter has what the log holds now. */
const checksumFault: MessageFault = {
  rule: 'checksum',
  reason: 'the message in the log is not what was appended, since its checksum differs',
  hint: 'look at the disk that holds the log; a replay takes the message as it is now',
}

function isDamaged(row: Row): boolean {
  return row[10] !== null && row[10] !== checksumOf(row)
}

function damagedError({ path, name }: LogFile, offset: number): SystemicError {
  const update = `UPDATE messages SET payload = x'', checksum = NULL WHERE "offset" = ${offset}`
  return new SystemicError(
    `${path}, the log of the topic ${name}: the message at offset ${offset} is not what was appended, since its checksum differs. Look at the disk, and put back a copy of the file; or give the message up with any SQLite shell while the platform is stopped: ${update};`,
  )
}

function openCursor(rows: readonly Row[], isChecked: boolean): RawCursor {
  const message = emptyMessage()
  let at = -1
  return {
    message,
    next() {
      at++
      if (at >= rows.length) return false
      const row = rows[at]!
      message.offset = row[0]
      message.fault = isChecked && isDamaged(row) ? checksumFault : row[1] === '' ? noKey : undefined
      message.channel = row[1]
      message.subtopic = row[2]
      message.publisher = row[3]
      message.protocol = row[4]
      message.contentType = row[5]
      message.createdUs = row[6]
      message.createdRestNs = row[7]
      message.payload = row[9]
      return true
    },
    key: () => (message.channel === '' ? null : Buffer.from(message.channel)),
    headers() {
      const others = rows[at]![8]
      // Those of a damaged message may no longer be JSON.
      return others === null || message.fault === checksumFault
        ? envelopeHeaders(message)
        : [...envelopeHeaders(message), ...headersOf(others)]
    },
  }
}

function headersOf(text: string): Header[] {
  const headers = JSON.parse(text) as { key: string; value: string | null | { base64: string } }[]
  return headers.map(({ key, value }) => ({
    key,
    value: value !== null && typeof value === 'object' ? Buffer.from(value.base64, 'base64') : value,
  }))
}

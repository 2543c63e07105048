// Reads chunks of messages from an embedded log; a cursor walks the rows of a chunk.

import type { StatementSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { envelopeHeaders, retainHeader } from '../envelope-headers.ts'
import type { Header } from '../log.ts'
import { emptyMessage, type MessageFault, noKey, type RawChunk, type RawCursor } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { type LogFile, only } from './file.ts'

export interface ChunkLimits {
  /** A chunk ends with the message that reaches this limit, so it exceeds it by at most one message. */
  readonly bytesMax: number
  readonly messagesMax: number
  /** How to treat a message with a wrong checksum: as an `error` or, in the log of device messages, as a `dead-letter`. */
  readonly damaged?: 'error' | 'dead-letter'
}

export interface ChunkReader {
  /**
   * Reads the messages from the offset `next` as a chunk that covers `[from, …)`; undefined if there are none yet.
   *
   * @param from at most `next`; smaller if the messages in between are lost
   * @param to no message from this offset on is read
   * @throws SystemicError if the message at `next` is damaged and that is an error; otherwise a chunk ends before a damaged message
   */
  read(from: number, next: number, to?: number): RawChunk | undefined
}

/** The columns of a message, in the order of the table. */
export type MessageColumns = readonly [
  offset: number,
  channel: string,
  subtopic: string,
  publisher: string,
  protocol: string,
  contentType: string,
  createdUs: number,
  createdRestNs: number,
  headers: string | null,
  payload: Uint8Array,
  checksum?: number | null,
]

/** CRC-32 of every column before the checksum. Those before the payload make one text, since a call costs more than the bytes of a short one. */
export function checksumOf(row: MessageColumns): number {
  const head = `${row[0]}\n${row[1]}\n${row[2]}\n${row[3]}\n${row[4]}\n${row[5]}\n${row[6]}\n${row[7]}\n${row[8] ?? ''}\n`
  return crc32(row[9], crc32(head))
}

type Row = Required<MessageColumns>

/** Memory of a row in addition to its payload and texts. */
const rowOverheadBytes = 300

export function openChunkReader(file: LogFile, { bytesMax, messagesMax, damaged = 'error' }: ChunkLimits): ChunkReader {
  const select: StatementSync = file.database.prepare('SELECT * FROM messages WHERE "offset" >= ? ORDER BY "offset" LIMIT ?')
  select.setReturnArrays(true)
  return {
    read(from, next, to = Infinity) {
      if (next >= file.end) return undefined
      const rows: Row[] = []
      let byteLength = 0
      for (const row of select.iterate(next, Math.min(messagesMax, to - next)) as Iterable<unknown> as Iterable<Row>) {
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
        at: only,
        from,
        to: rows[rows.length - 1]![0] + 1,
        lost: next - from,
        byteLength,
        cursor: () => openCursor(rows, damaged === 'dead-letter'),
      }
    },
  }
}

/** The dead letter contains the message as it is now in the log. */
const checksumFault: MessageFault = {
  rule: 'checksum',
  reason: 'the message in the log has changed since it was appended: its checksum differs',
  hint: 'check the disk of the log; a replay uses the message as it is now',
}

function isDamaged(row: Row): boolean {
  return row[10] !== null && row[10] !== checksumOf(row)
}

function damagedError({ path, name }: LogFile, offset: number): SystemicError {
  const update = `UPDATE messages SET payload = x'', checksum = NULL WHERE "offset" = ${offset}`
  return new SystemicError(
    `${path}, the log of the topic ${name}: the message at offset ${offset} has changed since it was appended: its checksum differs. Check the disk, and restore the file from a backup; or discard the message with any SQLite shell while the platform is stopped: ${update};`,
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
      // The headers of a damaged message may no longer be JSON.
      return others === null || message.fault === checksumFault
        ? envelopeHeaders(message)
        : [...envelopeHeaders(message), ...headersOf(others)]
    },
    isRetained() {
      const others = rows[at]![8]
      if (others === null || message.fault === checksumFault) return false
      return headersOf(others).some(({ key, value }) => key === retainHeader.key && value === retainHeader.value)
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

// What is noted of a message when the store refuses one of its lines: the rejection, and whether other rows of it may be there.

import type { EncodedBatch, EncodedLines } from './encoded-batch.ts'
import type { Fault } from './faults.ts'

/**
 * Rejects the message of a line, if that is not done yet. Its other lines may be stored, by this attempt or by another process that read the message
 * before.
 *
 * @param absent lines that are known not to be in the store
 */
export function rejectFor(encoded: EncodedBatch, line: number, absent: ReadonlySet<number>, fault: Fault): void {
  const { lines, rejected, partly } = encoded
  const message = lines.message[line]!
  if (rejected.has(message)) return
  rejected.set(message, { message, record: lines.record[line]!, ...fault })
  if (linesOf(lines, message).some(other => !absent.has(other))) partly.add(message)
}

/** The lines of a message, which lie together. */
export function linesOf(lines: EncodedLines, message: number): number[] {
  const found: number[] = []
  const first = lines.message.subarray(0, lines.length).indexOf(message)
  for (let line = first; line >= 0 && line < lines.length && lines.message[line] === message; line++) found.push(line)
  return found
}

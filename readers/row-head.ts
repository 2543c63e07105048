// The head of a row in the canonical answer: all that comes before its time or its payload, `{"Channel":…,"Subtopic":…,"Publisher":…,"Protocol":…` and of a
// record name and unit. Rows that lie together mostly share it, or differ in their publisher alone: then it is a copy with another one in it.

import type { JsonBytes } from './json-bytes.ts'
import type { Row, SenmlRow } from './reader.ts'
import type { KeyParts } from './record-keys.ts'

/** The head of the row above. Offsets are from `start` on. */
export interface Above {
  row: Row | undefined
  /** Where it begins in the bytes. */
  start: number
  subtopicEnd: number
  /** Where the characters of the publisher begin and end. */
  publisherStart: number
  publisherEnd: number
  end: number
}

/** Above the first row. */
export function noHead(): Above {
  return { row: undefined, start: 0, subtopicEnd: 0, publisherStart: 0, publisherEnd: 0, end: 0 }
}

/** Writes the head, and makes room for the row with so many characters more. */
export function writeHead(json: JsonBytes, row: Row, above: Above, characters: number, parts: KeyParts): void {
  const { channel, subtopic, publisher, protocol } = row
  const ownCharacters = row.kind === 'senml' ? row.name.length + (row.unit?.length ?? 0) : 0
  json.reserve(channel.length + subtopic.length + publisher.length + protocol.length + ownCharacters + characters)
  const start = json.at
  const before = above.row
  const isOfChannel = before !== undefined && subtopic === before.subtopic && channel === before.channel
  if (isOfChannel && isAlike(row, before)) {
    json.again(above.start, above.start + above.end)
    if (publisher === before.publisher || json.over(start + above.publisherStart, start + above.publisherEnd, publisher)) {
      above.row = row
      above.start = start
      return
    }
    json.at = start
  }
  if (isOfChannel) json.again(above.start, above.start + above.subtopicEnd)
  else {
    json.put(parts.channel)
    json.text(channel)
    json.put(parts.subtopic)
    json.text(subtopic)
  }
  above.subtopicEnd = json.at - start
  json.put(parts.publisher)
  above.publisherStart = json.at + 1 - start
  json.text(publisher)
  above.publisherEnd = json.at - 1 - start
  json.put(parts.protocol)
  json.text(protocol)
  if (row.kind === 'senml') writeName(json, row, parts)
  above.row = row
  above.start = start
  above.end = json.at - start
}

function writeName(json: JsonBytes, { name, unit }: SenmlRow, parts: KeyParts): void {
  json.put(parts.name)
  json.text(name)
  if (unit !== undefined) {
    json.put(parts.unit)
    json.text(unit)
  }
  json.put(parts.time)
}

/** Whether the heads of two rows of a channel and subtopic are the same but for their publishers. */
function isAlike(row: Row, before: Row): boolean {
  if (row.protocol !== before.protocol || row.kind !== before.kind) return false
  return row.kind === 'document' || (row.name === (before as SenmlRow).name && row.unit === (before as SenmlRow).unit)
}

// Writes what an earlier version wrote when it replayed through a separate topic.

import type { Header, OutgoingMessage } from '../../../pipeline/log.ts'
import { outgoing } from '../message.ts'

const position = (offset: number, partition: number): Header[] => [
  { key: 'sluice.log', value: '1' },
  { key: 'sluice.partition', value: String(partition) },
  { key: 'sluice.offset', value: String(offset) },
]

/** A message in its replays topic: the original, with its position in the last headers. */
export function oldReplay(message: OutgoingMessage, offset: number, partition = 0): OutgoingMessage {
  return { ...message, headers: [...(message.headers ?? []), ...position(offset, partition)] }
}

/** A resolution in the dead-letter topic: the letter was replayed, or dropped. */
export function oldResolution(offset: number, resolved: 'replayed' | 'dropped' = 'replayed', partition = 0): OutgoingMessage {
  return outgoing({
    payload: new Uint8Array(0),
    headers: [...position(offset, partition), { key: 'sluice.settled', value: resolved }],
  })
}

// A message for tests, separate from the suites so that a process without vitest can load it.

import type { OutgoingMessage } from '../../pipeline/log.ts'

export function outgoing(fields: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    channel: 'c1',
    subtopic: 'room.temperature',
    publisher: 't1',
    protocol: 'http',
    contentType: 'application/senml+json',
    createdUs: 1_700_000_000_000_000,
    createdRestNs: 0,
    payload: new TextEncoder().encode('[1]'),
    ...fields,
  }
}

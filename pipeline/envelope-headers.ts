// The envelope as headers of a message in the log: names and values.

import type { Envelope } from '../transformers/envelope.ts'
import type { Header } from './log.ts'

/** The names of the envelope's headers; all other headers are the sender's. */
export const envelopeHeaderNames: ReadonlySet<string> = new Set(['subtopic', 'publisher', 'protocol', 'created', 'content-type'])

/** A header of the sender: the message was published over MQTT with the retain flag (MQTT 5 §3.3.1.3), which subscribers may ask for. */
export const retainHeader: Header = { key: 'mqtt-retain', value: '1' }

/** The envelope without its channel, which is the message's key. `created` is in nanoseconds, decimal; an empty content type is left out. */
export function envelopeHeaders(envelope: Envelope): Header[] {
  const created = BigInt(envelope.createdUs) * 1000n + BigInt(envelope.createdRestNs)
  const headers: Header[] = [
    { key: 'subtopic', value: envelope.subtopic },
    { key: 'publisher', value: envelope.publisher },
    { key: 'protocol', value: envelope.protocol },
    { key: 'created', value: created.toString() },
  ]
  if (envelope.contentType !== '') headers.push({ key: 'content-type', value: envelope.contentType })
  return headers
}

// Makes a message for the log of one that a broker sent: its envelope is read by the same places as that of a Kafka topic that others write.
//
// A message whose envelope cannot be read goes into the log without a key, whole, so the writer makes a dead letter of it: `no-key`, with the reason in
// a header. Nothing that the broker sent is lost, and it can be replayed.

import type { IPublishPacket } from 'mqtt-packet'
import { canonicalId } from '../../transformers/uuid.ts'
import { openLaidOutCursor } from '../envelope/cursor.ts'
import { layoutOf } from '../envelope/layout.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import { mediaType } from '../kafka/records/media-type.ts'
import type { Header, OutgoingMessage } from '../log.ts'
import { emptyMessage, type MessageFault, type RawCursor, type RecordParts } from '../source.ts'
import type { BrokerOptions } from './options.ts'

/** Headers in the log. */
const topicHeader = 'mqtt-topic'
const faultHeader = 'mqtt-fault'

/** What a broker sent. */
export type Received = Pick<IPublishPacket, 'topic' | 'payload' | 'properties'>

export interface Incoming {
  readonly message: OutgoingMessage
  /** Why its envelope cannot be read. */
  readonly fault: MessageFault | undefined
}

export type ReadEnvelope = (received: Received, receivedUs: number) => Incoming

/** @param payloadBytesMax the largest payload in which fields are looked up */
export function openEnvelopeReader(options: BrokerOptions['envelope'], payloadBytesMax: number): ReadEnvelope {
  let { topic, payload, properties }: Received = { topic: '', payload: '' }
  let receivedUs = 0
  const raw = emptyMessage()

  /** Of repeated properties the last one counts. */
  function property(name: string): string | null {
    const texts = properties?.userProperties?.[name]
    return (typeof texts === 'object' ? texts.at(-1) : texts) || null
  }

  const parts: RecordParts = {
    keyText: () => null,
    headerText: name => property(Buffer.from(name).toString()),
    topicText: levels =>
      (levels === undefined
        ? topic
        : topic
            .split('/')
            .slice(levels.first - 1, levels.last)
            .join('/')) || null,
    timestampUs: () => receivedUs,
    faultOutside: () => undefined,
  }
  const unread: RawCursor = { message: raw, next: () => true, key: () => null, headers: () => [], parts }
  const cursor = openLaidOutCursor(unread, { layout: layoutOf(options)!, topic: '', payloadBytesMax })

  return (received, us) => {
    ;({ topic, payload, properties } = received)
    receivedUs = us
    raw.payload = Buffer.from(payload)
    raw.subtopic = property('subtopic') ?? ''
    raw.publisher = canonicalId(property('publisher') ?? '')
    raw.contentType = mediaType(properties?.contentType ?? '')
    raw.createdUs = us
    cursor.next()
    const { fault, channel, subtopic, publisher, contentType, createdUs, createdRestNs } = cursor.message
    const sent = { payload: raw.payload, protocol: 'mqtt' }
    if (fault !== undefined) {
      const headers = [{ key: faultHeader, value: `${fault.rule}: ${fault.reason}` }, ...headersOf(received)]
      const empty = { channel: '', subtopic: '', publisher: '', contentType: '', createdUs: us, createdRestNs: 0 }
      return { message: { ...sent, ...empty, headers, key: null }, fault }
    }
    const headers = headersOf(received).filter(({ key }) => !envelopeHeaderNames.has(key))
    const envelope = { channel, subtopic: dotted(subtopic), publisher, contentType, createdUs, createdRestNs }
    return { message: { ...sent, ...envelope, headers }, fault }
  }
}

function headersOf({ topic, properties }: Received): Header[] {
  const headers: Header[] = [{ key: topicHeader, value: topic }]
  for (const [key, texts] of Object.entries(properties?.userProperties ?? {})) {
    for (const value of typeof texts === 'object' ? texts : [texts]) headers.push({ key, value })
  }
  return headers
}

/** The levels of a topic are the parts of a subtopic. */
function dotted(subtopic: string): string {
  if (!subtopic.includes('/')) return subtopic
  return subtopic
    .split(/[/.]/)
    .filter(part => part !== '')
    .join('.')
}

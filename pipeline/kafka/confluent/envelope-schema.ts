// The Avro schema that ingest registers: one record with a message and its envelope.
//
// A field that is added later needs a default, and only fields with a default may be removed: then old and new schemas can read each other's
// messages, as the compatibility level FULL requires.

/** `created` is in nanoseconds since 1970; readers without the logical type see a long. */
export const envelopeSchema = {
  type: 'record' as const,
  name: 'Message',
  namespace: 'sluice',
  doc: 'A message of a device: what it sent, and who sent it where.',
  fields: [
    { name: 'channel', type: 'string', doc: 'Id of the channel.' },
    { name: 'subtopic', type: 'string', default: '', doc: 'Its parts are joined by dots.' },
    { name: 'publisher', type: 'string', default: '', doc: 'Id of the thing that sent it.' },
    { name: 'protocol', type: 'string', default: 'kafka', doc: 'The way it came in: http, mqtt.' },
    { name: 'created', type: { type: 'long', logicalType: 'timestamp-nanos' }, doc: 'When it was received, in nanoseconds since 1970.' },
    { name: 'content_type', type: 'string', default: '', doc: 'Of the payload.' },
    { name: 'payload', type: 'bytes', doc: 'As the device sent it.' },
  ],
}

/** The subject by the TopicNameStrategy of Confluent's serializers. */
export function subjectOf(topic: string): string {
  return `${topic}-value`
}

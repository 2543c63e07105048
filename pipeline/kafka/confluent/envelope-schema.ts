// The Avro schema that ingest registers: a message with its envelope, one record.
//
// A part that is added later needs a default, and only one with a default may be left out: then schemas of both ages read each other's
// messages, which is what the compatibility FULL asks for.

/** `created` is in nanoseconds since 1970; readers that do not know the logical type see a long. */
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

/** As the TopicNameStrategy of Confluent's serializers has it. */
export function subjectOf(topic: string): string {
  return `${topic}-value`
}

// The options section `envelope`: where the parts of a message's envelope come from, in a topic that was not written for Sluice.

import { type Static, Type } from 'typebox'
import { isSource, sourceWords } from './layout.ts'

function sources(part: string, without: string, example: readonly string[]) {
  return Type.Optional(
    Type.Array(Type.Refine(Type.String({ allowed: sourceWords }), isSource), {
      minItems: 1,
      maxItems: 8,
      examples: [example],
      description: `Where ${part} comes from: the first that the message has. ${without}`,
    }),
  )
}

export const envelopeOptions = Type.Object({
  channel: sources('the channel', 'Default: `key`. A message with none is a dead letter.', ['field:device.id', 'key', 'const:plant']),
  publisher: sources('the publisher', 'Default: `header:publisher`; without one it is empty.', ['header:device', 'key']),
  subtopic: sources('the subtopic', 'Default: `header:subtopic`; without one it is empty.', ['field:type', 'const:measurements']),
  contentType: sources('the content type', 'Default: `header:content-type`.', ['const:application/json']),
  created: sources(
    'the time of a message',
    "Default: `header:created` in nanoseconds. Elsewhere RFC 3339, or digits since 1970. Without one it is the record's timestamp.",
    ['field:ts', 'header:event-time'],
  ),
})
export type EnvelopeOptions = Static<typeof envelopeOptions>

// The media type of a content type as producers write it: without parameters, lower case (RFC 9110 §8.3.1).

/** The header at hand is mostly the one before. */
let lastWritten = ''
let lastMediaType = ''

export function mediaType(contentType: string): string {
  if (contentType === lastWritten) return lastMediaType
  const end = contentType.indexOf(';')
  lastMediaType = (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
  lastWritten = contentType
  return lastMediaType
}

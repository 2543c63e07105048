// Converts a producer's content type into a media type: without parameters, lower case (RFC 9110 §8.3.1).

/** Cache of one entry: the header usually repeats the previous one. */
let lastWritten = ''
let lastMediaType = ''

export function mediaType(contentType: string): string {
  if (contentType === lastWritten) return lastMediaType
  const end = contentType.indexOf(';')
  lastMediaType = (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
  lastWritten = contentType
  return lastMediaType
}

// From the path of a publish to the dotted subtopic of its message.

/** The limits of a subtopic; a format, its last part, names tables and measurements, so it stays short. */
export const subtopicLimits = { bytes: 1024, parts: 16, partBytes: 128 } as const

/** A subtopic that is not taken; the message is a sentence for its sender. */
export class SubtopicError extends Error {
  override readonly name = 'SubtopicError'
}

const separator = /[/.]/
const wildcard = /[*>]/
const blank = /[\p{Cc}\s]/u
const permitted = /^[\p{L}\p{Nd}_\-:]+$/u

/**
 * Parts are divided by `/` or `.`, empty ones are dropped: `bedroom//temperature/` becomes `bedroom.temperature`. The result
 * is what subjects are matched with (`channels.<channel>.bedroom.temperature`), so it holds no wildcard.
 *
 * @param path what follows `/messages/`, percent-decoded
 * @throws SubtopicError
 */
export function subtopicOf(path: string): string {
  if (path === '') return ''
  const parts = path.split(separator).filter(part => part !== '')
  for (const part of parts) checkPart(part)
  if (parts.length > subtopicLimits.parts) {
    throw new SubtopicError(`the subtopic has ${parts.length} parts: at most ${subtopicLimits.parts} are taken`)
  }
  const subtopic = parts.join('.')
  const bytes = Buffer.byteLength(subtopic)
  if (bytes > subtopicLimits.bytes) {
    throw new SubtopicError(`the subtopic has ${bytes} bytes: at most ${subtopicLimits.bytes} are taken`)
  }
  return subtopic
}

function checkPart(part: string): void {
  if (wildcard.test(part)) {
    throw new SubtopicError('a part of the subtopic holds * or >, which are for subscribing only: publish without them')
  }
  if (blank.test(part)) {
    throw new SubtopicError('a part of the subtopic holds a space or a control character: use letters, digits, _ - : and .')
  }
  if (!permitted.test(part)) {
    throw new SubtopicError('a part of the subtopic holds a character other than letters, digits, _ - : and .: leave it out')
  }
  const bytes = Buffer.byteLength(part)
  if (bytes > subtopicLimits.partBytes) {
    throw new SubtopicError(`a part of the subtopic has ${bytes} bytes: at most ${subtopicLimits.partBytes} are taken`)
  }
}

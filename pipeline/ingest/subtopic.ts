// Converts the path of a publish into the dotted subtopic of its message.

/** Limits of a subtopic. The last part, the format, becomes the name of a table or measurement, so it must be short. */
export const subtopicLimits = { bytes: 1024, parts: 16, partBytes: 128 } as const

/** The subtopic is not allowed; the message is for the sender. */
export class SubtopicError extends Error {
  override readonly name = 'SubtopicError'
}

const separator = /[/.]/
const wildcard = /[*>]/
const blank = /[\p{Cc}\s]/u
const permitted = /^[\p{L}\p{Nd}_\-:]+$/u

/**
 * Parts are separated by `/` or `.`; empty ones are dropped: `bedroom//temperature/` becomes `bedroom.temperature`. Subjects are
 * matched against the result (`channels.<channel>.bedroom.temperature`), so it must not contain wildcards.
 *
 * @param path after `/messages/`, percent-decoded
 * @throws SubtopicError
 */
export function subtopicOf(path: string): string {
  if (path === '') return ''
  const parts = path.split(separator).filter(part => part !== '')
  for (const part of parts) checkPart(part)
  if (parts.length > subtopicLimits.parts) {
    throw new SubtopicError(`the subtopic has ${parts.length} parts: at most ${subtopicLimits.parts} are allowed`)
  }
  const subtopic = parts.join('.')
  const bytes = Buffer.byteLength(subtopic)
  if (bytes > subtopicLimits.bytes) {
    throw new SubtopicError(`the subtopic has ${bytes} bytes: at most ${subtopicLimits.bytes} are allowed`)
  }
  return subtopic
}

function checkPart(part: string): void {
  if (wildcard.test(part)) {
    throw new SubtopicError('a part of the subtopic contains * or >, which are for subscribing only: remove them')
  }
  if (blank.test(part)) {
    throw new SubtopicError('a part of the subtopic contains a space or a control character: use letters, digits, _ - : and .')
  }
  if (!permitted.test(part)) {
    throw new SubtopicError('a part of the subtopic contains a character other than letters, digits, _ - : and .: remove it')
  }
  const bytes = Buffer.byteLength(part)
  if (bytes > subtopicLimits.partBytes) {
    throw new SubtopicError(`a part of the subtopic has ${bytes} bytes: at most ${subtopicLimits.partBytes} are allowed`)
  }
}

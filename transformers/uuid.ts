// UUIDs as text. Upper and lower case are the same id, and lower case is written (RFC 9562 §4).

export const uuidPattern = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
const uuid = new RegExp(uuidPattern)

export function isUuid(text: string): boolean {
  return text.length === 36 && uuid.test(text)
}

/** The one form of the id of a channel or a publisher, in which it is stored and compared: a UUID in lower case, and any other text as it is. */
export function canonicalId(text: string): string {
  return isUuid(text) ? text.toLowerCase() : text
}

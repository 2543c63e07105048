// The notation of a path to a value in a JSON object: where an envelope has its parts, and which field of a payload a query compares.

/** Keys of one or more characters. A dot or a backslash in them has a backslash before it. */
const path = /^(?:[^.\\]|\\[.\\])+(?:\.(?:[^.\\]|\\[.\\])+)*$/
const keys = /(?:[^.\\]|\\[.\\])+/g

/** How to write a path, worded to follow "give". */
export const pathWords = String.raw`the keys from the root with one dot between, and \. for a dot and \\ for a backslash within a key`

/**
 * The keys from the root: of `device.id` they are `device` and `id`, of `device\.id` it is `device.id`. Keys that are empty cannot be written.
 *
 * @returns undefined for a text with an empty key, or with a backslash before anything except a dot or a backslash
 */
export function parsePath(text: string): readonly string[] | undefined {
  if (!path.test(text)) return undefined
  return text.match(keys)!.map(key => key.replaceAll(/\\(.)/g, '$1'))
}

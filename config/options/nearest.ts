// Finds the known name that a misspelled one probably meant.

import { closest, distance } from 'fastest-levenshtein'

/** The nearest known name, or undefined if none is near: at most two letters wrong, one in a name shorter than four letters, a third in a long one. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  if (known.length === 0 || name.length > 100) return undefined
  const near = closest(name, known)
  const allowed = near.length < 4 ? 1 : Math.max(2, Math.floor(near.length / 3))
  return distance(name, near) <= allowed ? near : undefined
}

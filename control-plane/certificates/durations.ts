// Durations as clients write them: `2400h`, `1h30m`, `90s`, or digits alone.

const secondsOf: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1 }
const form = /^(?:\d{1,9}(?:\.\d{1,9})?[hms])+$/

/**
 * A duration as text.
 *
 * @param bareUnit what digits alone are
 * @returns whole seconds, rounded down; undefined for what is none, or shorter than a second
 */
export function parseDuration(text: string, bareUnit: 'h' | 's'): number | undefined {
  const withUnit = /^\d{1,9}$/.test(text) ? `${text}${bareUnit}` : text
  if (!form.test(withUnit)) return undefined
  let seconds = 0
  for (const [, count, unit] of withUnit.matchAll(/([\d.]+)([hms])/g)) seconds += Number(count) * secondsOf[unit!]!
  return seconds < 1 ? undefined : Math.floor(seconds)
}

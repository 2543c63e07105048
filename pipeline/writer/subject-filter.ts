// The messages that a writer subscribes to: patterns over the subject `channels.<channel id>[.<subtopic>]` (SPEC §2, writer configuration).

import { canonicalId } from '../../transformers/uuid.ts'

/** True for a message that at least one pattern matches. */
export type SubjectFilter = (channel: string, subtopic: string) => boolean

/**
 * `*` matches exactly one part, a final `>` one or more. `channels.>` is everything. A channel id is one part, whatever it contains.
 *
 * @throws RangeError for a pattern that can never match: says what is wrong, and what would be right
 */
export function subjectFilter(patterns: readonly string[]): SubjectFilter {
  const compiled = patterns.map(compile)
  if (compiled.some(parts => parts.length === 2 && parts[1] === '>')) return () => true
  return (channel, subtopic) => {
    const subject = subtopic === '' ? ['channels', channel] : ['channels', channel, ...subtopic.split('.')]
    return compiled.some(parts => matches(parts, subject))
  }
}

function compile(pattern: string): string[] {
  const parts = pattern.split('.')
  const fault = faultOf(parts)
  if (fault !== undefined) throw new RangeError(`the subject "${pattern}" ${fault}`)
  return parts.with(1, canonicalId(parts[1]!))
}

function faultOf(parts: readonly string[]): string | undefined {
  if (parts[0] !== 'channels') return 'does not begin with "channels": use channels.> for everything'
  if (parts.length < 2) return 'names no channel: use channels.> for everything'
  for (const [at, part] of parts.entries()) {
    if (part === '') return 'has an empty part: put exactly one dot between parts'
    if (part === '>' && at < parts.length - 1) return 'has a ">" before its end: only the last part may be ">"'
    if (part.length > 1 && /[*>]/.test(part)) return `has the part "${part}": "*" and ">" can only replace whole parts`
  }
  return undefined
}

function matches(pattern: readonly string[], subject: readonly string[]): boolean {
  for (let at = 0; at < pattern.length; at++) {
    if (pattern[at] === '>') return subject.length > at
    if (at >= subject.length) return false
    if (pattern[at] !== '*' && pattern[at] !== subject[at]) return false
  }
  return pattern.length === subject.length
}

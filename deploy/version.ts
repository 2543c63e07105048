// Where the version stands besides package.json: in files of deploy/ that cannot read it. A release sets it there, and a test compares.

const number = String.raw`\d+\.\d+\.\d+`
/** The tag of an image, and the argument of a build, on a command line or in a file. */
const anywhere = new RegExp(String.raw`(?<=\bsluice:|\bVERSION(?:=|: ))${number}`, 'g')
const inChart = new RegExp(String.raw`(?<=^(?:appVersion|version): ["']?)${number}`, 'gm')

const patternsOf = (path: string): RegExp[] => (path.endsWith('/Chart.yaml') ? [anywhere, inChart] : [anywhere])

/** Every version of Sluice in a file, with its line. */
export function versionsIn(path: string, text: string): { version: string; line: number }[] {
  return patternsOf(path).flatMap(pattern =>
    [...text.matchAll(pattern)].map(({ 0: version, index }) => ({ version, line: text.slice(0, index).split('\n').length })),
  )
}

export function withVersion(path: string, text: string, version: string): string {
  return patternsOf(path).reduce((changed, pattern) => changed.replaceAll(pattern, version), text)
}

// Tables in documents that are generated from code: options, errors, metrics and routes.

import type { TObject } from 'typebox'
import { Type } from 'typebox'
import { markdownTable, optionHead, optionRows, optionTable } from '../../config/options/options.ts'
import { errors } from '../../http/errors.ts'
import type { Finding, SourceFile } from './files.ts'
import { metricTable } from './metrics.ts'

/** The roles by name, each with its options. */
export type Roles = Readonly<Record<string, TObject>>

/** Inputs of the tables that cannot be imported here. */
export interface TableSources {
  readonly roles: Roles
  /** The tables of all routes. */
  readonly routes: string
}

/**
 * Updates the tables in the text. Between `<!-- options:NAME -->` and `<!-- /options -->` is the table of a role (`up`), of one of its sections
 * (`writer document.store`), or of some sections of any role (`http`, `http,logging`); with `*`, a table for each section of all roles,
 * where an option that several roles share stands once; between `<!-- errors -->` and `<!-- /errors -->` that of all errors
 * of the HTTP API; between `<!-- metrics -->` and `<!-- /metrics -->` that of all metrics, and with `routes`
 * those of all routes.
 *
 * @throws Error for a name that is neither role nor section, and for a marker without its end
 */
export function withTables(text: string, { roles, routes }: TableSources): string {
  const begins = text.match(/<!-- (options:|(errors|metrics|routes) -->)/g)?.length ?? 0
  let made = 0
  const result = text.replace(
    /(<!-- (?:(options):([\w ,.*-]+)|(errors)|(metrics)|(routes)) -->\n)[\s\S]*?(<!-- \/(?:\2|\4|\5|\6) -->)/g,
    (_all, begin: string, _options, name: string | undefined, errors, metrics, _routes, end: string) => {
      made++
      const table =
        name !== undefined
          ? name === '*'
            ? sectionTables(roles)
            : optionTable(schemaOf(name, roles))
          : errors !== undefined
            ? errorTable()
            : metrics !== undefined
              ? metricTable()
              : routes
      return `${begin}\n${table}\n\n${end}`
    },
  )
  if (made !== begins) throw new Error('a marker has no end: write <!-- /options --> or the like below it')
  return result
}

function schemaOf(name: string, roles: Roles): TObject {
  const role = roles[name]
  if (role !== undefined) return role
  const [roleName, sectionName = ''] = name.split('.')
  const section = (roles[roleName!]?.properties as Record<string, TObject> | undefined)?.[sectionName]
  if (section !== undefined) return Type.Object({ [sectionName]: section })
  const sections = Object.values(roles).flatMap(schema => Object.entries(schema.properties as Record<string, TObject>))
  const chosen = name.split(',').map(part => {
    const section = sections.find(([key]) => key === part)
    if (section === undefined)
      throw new Error(
        `there is no role and no section ${part}: known are ${[...Object.keys(roles), ...sections.map(([key]) => key)].join(', ')}`,
      )
    return section
  })
  return Type.Object(Object.fromEntries(chosen))
}

/** The roles of the documents; the sections `store` of other stores are on the stores' pages. */
const documented = ['up', 'api', 'ingest', 'bridge', 'writer relational', 'reader relational']

/** The row of an option, and its default in each of the roles that have it. */
interface SharedRow {
  readonly cells: readonly string[]
  /** By role, without its store. */
  readonly defaults: Map<string, string>
}

/** A heading and a table for each section; options without a section come first. */
function sectionTables(roles: Roles): string {
  const rows = new Map<string, SharedRow>()
  for (const name of documented) {
    for (const cells of optionRows(roles[name]!)) {
      const key = cells.toSpliced(2, 1).join()
      const row = rows.get(key) ?? { cells, defaults: new Map() }
      row.defaults.set(name.split(' ')[0]!, cells[2]!)
      rows.set(key, row)
    }
  }
  const sections = Map.groupBy(rows.values(), ({ cells }) => /^`(\w+)\./.exec(cells[0]!)?.[1] ?? '')
  return [...sections]
    .sort(([left], [right]) => Number(left !== '') - Number(right !== ''))
    .map(([section, rows]) => `### ${section === '' ? 'Without a section' : `\`${section}\``}\n\n${sectionTable(rows)}`)
    .join('\n\n')
}

/** A default that is not the same for all roles is given for each. */
function defaultsOf({ defaults }: SharedRow): string {
  const roles = Map.groupBy(defaults.keys(), role => defaults.get(role)!)
  return [...roles].map(([value, of]) => (roles.size === 1 ? value : `${value} (${of.join(', ')})`)).join(', ')
}

/** The roles stand above the table if they are the same for all rows, else in a column. */
function sectionTable(rows: readonly SharedRow[]): string {
  const rolesOf = ({ defaults }: SharedRow): string => (defaults.size === documented.length ? 'all' : [...defaults.keys()].join(', '))
  const cellsOf = (row: SharedRow): string[] => row.cells.toSpliced(2, 1, defaultsOf(row))
  if (new Set(rows.map(rolesOf)).size === 1) return `Roles: ${rolesOf(rows[0]!)}.\n\n${markdownTable(optionHead, rows.map(cellsOf))}`
  return markdownTable(
    optionHead.toSpliced(3, 0, 'Roles'),
    rows.map(row => cellsOf(row).toSpliced(3, 0, rolesOf(row))),
  )
}

function errorTable(): string {
  const rows = Object.entries(errors).map(([code, { status, title }]) => [String(status), `\`${code}\``, title])
  return markdownTable(['Status', 'Code', 'Meaning'], rows)
}

/** Documents whose tables are outdated. */
export function tables(files: readonly SourceFile[], sources: TableSources): Finding[] {
  return files
    .filter(({ path, text }) => path.endsWith('.md') && withTables(text, sources) !== text)
    .map(({ path }) => `${path}: its tables are not those of the code: run npm test -- --write`)
}

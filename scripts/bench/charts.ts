import { BarChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, MarkLineComponent } from "echarts/components";
import { type EChartsCoreOption, init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

import type { Ratio } from "./ratio.ts";

use([BarChart, LineChart, GridComponent, LegendComponent, MarkLineComponent, SVGRenderer]);

const SIZE = { width: 760, height: 380 };
/** Without a browser the width of words is a guess. */
const LEGEND = { top: 8, itemGap: 48 };
/** The page may be shown on any ground. */
const PAPER = "#ffffff";

/** Bars of ratios, a group of them for each name, beside a line at 1. */
export function barsOf(
  what: string,
  { names, groups }: { names: readonly string[]; groups: Record<string, readonly Ratio[]> },
): string {
  return draw({
    grid: { left: 170, right: 30, top: 40, bottom: 50 },
    legend: LEGEND,
    xAxis: { type: "value", name: what, nameLocation: "middle", nameGap: 28 },
    yAxis: { type: "category", data: [...names], inverse: true },
    series: Object.entries(groups).map(([name, ratios]) => ({
      type: "bar",
      name,
      data: ratios.map(({ median }) => median),
      label: { show: true, position: "right", formatter: labelOf },
      markLine: {
        symbol: "none",
        label: { show: false },
        lineStyle: { color: "#555555" },
        data: [{ xAxis: 1 }],
      },
    })),
  });
}

/** Lines of ratios over the number of rows. */
export function linesOf(
  what: string,
  { rows, lines }: { rows: readonly number[]; lines: Record<string, readonly Ratio[]> },
): string {
  return draw({
    grid: { left: 70, right: 40, top: 40, bottom: 50 },
    legend: LEGEND,
    xAxis: {
      type: "log",
      name: "rows in the ledger",
      min: rows[0],
      nameLocation: "middle",
      nameGap: 28,
    },
    yAxis: { type: "value", name: what, min: 0, nameLocation: "middle", nameGap: 40 },
    series: Object.entries(lines).map(([name, ratios], line) => ({
      type: "line",
      name,
      data: ratios.map(({ median }, i) => [rows[i]!, median]),
      // One line's above it, the other's below, or the words lie on each other.
      label: { show: true, position: line === 0 ? "top" : "bottom", formatter: labelOf },
    })),
  });
}

function draw(options: EChartsCoreOption): string {
  const chart = init(null, null, { renderer: "svg", ssr: true, ...SIZE });
  chart.setOption({ animation: false, backgroundColor: PAPER, ...options });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return `${svg}\n`;
}

function labelOf({ value }: { value: unknown }): string {
  return Number([value].flat().at(-1)).toFixed(2);
}
